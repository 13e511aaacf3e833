"""W&B beside a run: real offline files, real kills, a server that is not there, and a W&B that fails or hangs."""

import json
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from decent_core.config.load import load
from decent_core.config.logger_settings import NoLogger, WandbLogger
from decent_core.records.record import read
from decent_core.records.step_log import MetricsLog
from decent_core.tracking import logger
from decent_core.tracking.logger import CLOSE_SECONDS, LoggerProcess, describe
from tests.support import ROOT, needs
from tests.support.offline_runs import history, offline_runs, records, summary
from tests.support.processes import wait_for
from tests.support.runs import ROW, SMALL, merged, small_disk, train, train_and_kill

NOWHERE = {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": "0" * 40}  # the discard port: nobody listens


def said(done: subprocess.CompletedProcess) -> list[str]:
    return [line for line in done.stderr.splitlines() if "wandb" in line.lower() or "W&B" in line]


def exit_codes(path: Path) -> list[int]:
    """The end of the run, if W&B has been told of one."""
    return [record["exit_code"] for record in records(path, "exit")]


def next_second() -> None:
    """W&B names folders by the second."""
    now = int(time.time())
    wait_for(lambda: int(time.time()) > now, "the clock stands")


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """The plain run with W&B, offline."""
    folder = tmp_path_factory.mktemp("sent")
    done = train(*ROW, "logger=wandb", f"out={folder}")
    return folder, done


def test_offline_run_holds_the_metrics_log_step_by_step(sent):
    folder, _ = sent
    (path,) = offline_runs(folder)
    rows = history(path)
    assert [row["_step"] for row in rows] == list(range(2, 31, 2))
    assert rows == merged(folder)
    assert rows[-1].keys() >= {"train_loss", "val_loss", "local_val_loss", "consensus_distance", "train_seconds"}
    assert exit_codes(path) == [0]


def test_offline_run_is_named_and_grouped_and_holds_config_and_record(sent):
    folder, _ = sent
    (path,) = offline_runs(folder)
    record = read(folder / "record.json")
    run = records(path, "run")[0]
    assert re.fullmatch(re.escape(record.run_id) + "-[0-9a-f]{8}", run["run_id"])
    assert (run["display_name"], run["run_group"], run["job_type"]) == (record.run_id, "p/gpt2", "awc")
    assert run["tags"] == ["method=awc", "topology=aer", "optimizer=accum_adamw", "task=gpt2", "scale=smoke"]
    config = run["config"]["update"]
    del config["_wandb"]
    assert config == json.loads((folder / "record.json").read_text())["config"]
    assert records(path, "files")[-1] == {"files": [{"path": "record.json"}]}
    assert (path.parent / "files" / "record.json").read_bytes() == (folder / "record.json").read_bytes()
    final = summary(path)
    assert {name: final[name] for name in record.metrics} == record.metrics
    for name in ("status", "step_ms_p50", "bytes_sent_per_step", "consensus_distance", "config_hash", "train_seconds"):
        assert final[name] == getattr(record, name)


def test_wandb_changes_no_bit_and_says_nothing(plain_run, sent):
    folder, done = sent
    record = read(folder / "record.json")
    assert record.parameters_sha256 == plain_run[1].parameters_sha256
    assert (record.config_hash, record.run_id) == (plain_run[1].config_hash, plain_run[1].run_id)
    assert done.stdout == f"{folder}/record.json\n"
    assert said(done) == []


@pytest.fixture
def failing(tmp_path):
    """The environment in which `import wandb` finds the stand-in."""
    (tmp_path / "instead").mkdir()
    shutil.copy(ROOT / "tests" / "support" / "failing_wandb.py", tmp_path / "instead" / "wandb.py")
    return {"PYTHONPATH": str(tmp_path / "instead")}


def test_killed_run_continues_under_its_id_without_doubled_steps(plain_run, tmp_path):
    overrides = [*ROW, "logger=wandb", "trainer.checkpoint_every=3", f"out={tmp_path}"]
    checkpoint = tmp_path / f"checkpoints/step_{3 * random.randint(2, 8):08d}"
    train_and_kill(*overrides, when=checkpoint.exists, then=lambda: offline_runs(tmp_path))
    (before,) = offline_runs(tmp_path)
    wait_for(lambda: exit_codes(before), "the sending process outlives its killed training", every=0.2)
    assert exit_codes(before) == [1]
    assert history(before)[0]["_step"] == 2
    name = records(before, "run")[0]["run_id"]
    next_second()
    train(*overrides)
    (after,) = offline_runs(tmp_path)
    assert after != before
    assert records(after, "run")[0]["run_id"] == name
    steps = [row["_step"] for row in history(after)]
    assert steps == sorted(set(steps)) == list(range(2, 31, 2))
    assert history(after) == merged(tmp_path)
    assert read(tmp_path / "record.json").parameters_sha256 == plain_run[1].parameters_sha256


def test_only_one_of_several_ranks_sends(tmp_path):
    train(*SMALL, "engine=distributed", "logger=wandb", f"out={tmp_path}", ranks=2)
    assert len(offline_runs(tmp_path)) == 1


def test_failing_wandb_leaves_training_as_it_was(plain_run, tmp_path, failing):
    done = train(*ROW, "logger=wandb", f"out={tmp_path}", FAIL_AT="log", **failing)
    (line,) = said(done)
    assert line.startswith("W&B: RuntimeError: no space left at log. The training is not affected")
    assert read(tmp_path / "record.json").parameters_sha256 == plain_run[1].parameters_sha256


def test_unreachable_server_costs_bounded_time_and_keeps_the_run_offline(tmp_path):
    train(*SMALL, f"out={tmp_path}/plain")
    overrides = [*SMALL, "logger=wandb", "logger.mode=online", "logger.timeout_seconds=1", f"out={tmp_path}/sent"]
    done = train(*overrides, **NOWHERE)
    seconds = time.time() - (tmp_path / "sent/record.json").stat().st_mtime  # what W&B took after the training
    (line,) = said(done)
    assert "connection refused" in line and "kept offline, for wandb sync" in line
    assert seconds < 1 + CLOSE_SECONDS + 5  # the last five for the process to end on a busy machine
    (path,) = offline_runs(tmp_path / "sent")
    assert history(path) == merged(tmp_path / "sent")
    first, second = (read(tmp_path / name / "record.json") for name in ("plain", "sent"))
    assert first.parameters_sha256 == second.parameters_sha256


# What follows needs no training: the process is told of a metrics log and a record that stand already.


@pytest.fixture
def send(tmp_path, monkeypatch):
    """Sends a short run with the W&B of `changes`; returns what was said, and the seconds it took."""
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (2, 4, 6):
        log.append({"kind": "train", "step": step, "train_loss": 1.0 / step})
        log.append({"kind": "eval", "step": step, "val_loss": float("nan")})
    (tmp_path / "record.json").write_text(json.dumps({"status": "ok", "metrics": {}, "best": {}, "steps": 6}))

    def send(
        timeout_seconds: float = 20, anew: bool = False, killed: bool = False, **changes: str
    ) -> tuple[list[str], float]:
        for name, value in changes.items():
            monkeypatch.setenv(name, value)
        start, lines = time.monotonic(), []
        settings = WandbLogger("wandb", "tests", timeout_seconds, mode="offline", entity=None)
        process = LoggerProcess(settings, tmp_path)
        process.begin("a-run", load(SMALL).as_dict(), anew)
        process.record = None if killed else tmp_path / "record.json"
        process.check(lines.append)
        process.close(lines.append)
        process.check(lines.append)
        return lines, time.monotonic() - start

    return send


def fake_sent(folder: Path) -> list[int]:
    return json.loads((folder / "wandb/offline-run-1-the-run/files/sent.json").read_text())


@pytest.mark.parametrize("call", ["import", "init", "log", "save", "finish"])
def test_failure_of_any_call_is_said_once_on_one_line(send, failing, call):
    lines, _ = send(FAIL_AT=call, **failing)
    (line,) = lines
    assert line.startswith(f"W&B: RuntimeError: no space left at {call}. The training is not affected")


@pytest.mark.parametrize("call", ["import", "init", "log", "finish"])
def test_call_that_never_returns_is_left_behind(send, failing, call, monkeypatch):
    monkeypatch.setattr(logger, "CLOSE_SECONDS", 2.0)
    lines, seconds = send(timeout_seconds=0.5, FAIL_AT=call, HANG_SECONDS="100", **failing)
    (line,) = lines
    assert "not finished 0.5 s after the run" in line or f"status -{signal.SIGALRM:d}" in line
    assert seconds < 5


def test_steps_that_the_server_has_are_not_sent_again(send, failing, tmp_path):
    assert send(**failing)[0] == []
    assert fake_sent(tmp_path) == [2, 4, 6]
    assert send(FIRST_STEP="5", **failing)[0] == []
    assert fake_sent(tmp_path) == [6]


def test_step_in_which_training_was_killed_is_not_sent_by_half(send, tmp_path):
    assert send(killed=True)[0] == []
    (path,) = offline_runs(tmp_path)
    assert [row["_step"] for row in history(path)] == [2, 4]
    assert exit_codes(path) == [1]
    assert not (path.parent / "files" / "record.json").exists()


def test_missing_wandb_is_said(send, tmp_path):
    (tmp_path / "hidden/wandb").mkdir(parents=True)
    (tmp_path / "hidden/wandb/__init__.py").write_text("raise ModuleNotFoundError('No module named wandb')")
    lines, _ = send(PYTHONPATH=str(tmp_path / "hidden"))
    assert lines[0].startswith("W&B: ModuleNotFoundError: No module named wandb")


def test_folder_that_cannot_be_written_is_said(send, tmp_path):
    (tmp_path / "wandb").write_text("in the way")
    (line,) = send()[0]
    assert line.startswith("W&B: ")
    assert str(tmp_path / "wandb") in line


@needs.root
def test_full_disk_is_said(send, tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in range(8, 1000):
        log.append({"kind": "train", "step": step, "train_loss": 1.0 / step})
    with small_disk(tmp_path / "wandb", "32k"):
        lines, seconds = send(timeout_seconds=5)
    (line,) = lines
    assert "No space left on device" in line
    assert seconds < 15


def test_id_lasts_until_a_run_is_started_anew(send, tmp_path):
    names = []
    for anew in (False, False, True):
        assert send(anew=anew)[0] == []
        names.append(records(offline_runs(tmp_path)[-1], "run")[0]["run_id"])
        next_second()
    assert names[0] == names[1] != names[2]
    assert len(offline_runs(tmp_path)) == 2


def test_without_a_logger_there_is_no_process(tmp_path):
    process = LoggerProcess(NoLogger("none"), tmp_path)
    process.begin("a-run", {}, anew=False)
    process.close(pytest.fail)
    assert process.process is None
    assert list(tmp_path.iterdir()) == []


def test_runs_are_grouped_by_item_or_by_task_and_scale():
    assert describe("x", load([*ROW]).as_dict())["group"] == "p/gpt2"
    assert describe("x", load([*SMALL]).as_dict())["group"] == "regression/smoke"


def test_logger_has_no_effect_on_the_configuration_hash():
    for chosen in (["logger=none"], ["logger=wandb"], ["logger=wandb", "logger.mode=online", "logger.entity=us"]):
        assert load([*ROW, *chosen]).config_hash == load(ROW).config_hash
    assert "logger" not in load(ROW).result_keys()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["logger=wandbb"], "logger=wandbb: no such logger; did you mean wandb?"),
        (["logger.mode=online"], "logger.mode: no such key"),
        (["logger=wandb", "logger.mode=live"], 'logger.mode="live"'),
        (["logger=wandb", "logger.timeout_seconds=0"], "logger.timeout_seconds=0.0: must be more than 0"),
    ],
)
def test_mistakes_are_named(overrides, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        load(overrides)
