"""Trackio beside a run: the real database, real kills, and nothing that leaves the machine."""

import fcntl
import json
import os
import random
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from decent_core.config.load import load
from decent_core.config.logger_settings import TrackioLogger
from decent_core.records.record import read
from decent_core.records.step_log import MetricsLog
from decent_core.tracking.logger import LoggerProcess
from tests.support import ROOT, needs
from tests.support.processes import wait_for
from tests.support.runs import ROW, SMALL, merged, small_disk, train, train_and_kill
from tests.support.trackio_runs import TRACKIO, ask, attached, history, runs

#: writes what a Python process asks of the network, and that it has imported trackio at all
WATCH = """
import os, sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo") or event == "import" and arguments[0] == "trackio.run":
        with open(os.environ["WATCHED"], "a") as stream:
            print(event, arguments, file=stream)
sys.addaudithook(watch)
"""
#: what trackio and Hugging Face's client would go by
ELSEWHERE = {
    "TRACKIO_SPACE_ID": "us/space",
    "TRACKIO_SERVER_URL": "http://127.0.0.1:9",
    "TRACKIO_WRITE_TOKEN": "token",
    "TRACKIO_BUCKET_ID": "us/bucket",
    "HF_TOKEN": "hf_token",
}


def said(done: subprocess.CompletedProcess) -> list[str]:
    return [line for line in done.stderr.splitlines() if "trackio" in line.lower()]


def ended(out: Path) -> bool:
    """Whether no process sends what is in the run's folder."""
    with open(out / "trackio" / ".lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A run with trackio, in a folder with its database."""
    folder = tmp_path_factory.mktemp("sent")
    done = train(*ROW, "logger=trackio", f"logger.folder={folder}/db", f"out={folder}")
    return folder, done


def test_database_holds_the_metrics_log_step_by_step(sent):
    folder, _ = sent
    (name,) = runs(folder / "db")
    rows = history(folder / "db", name)
    assert [row["_step"] for row in rows] == list(range(2, 31, 2))
    assert rows == merged(folder)
    assert rows[-1].keys() >= {"train_loss", "val_loss", "local_val_loss", "consensus_distance", "train_seconds"}


def test_run_is_named_and_grouped_and_holds_config_and_record(sent):
    folder, _ = sent
    record = read(folder / "record.json")
    (name,) = runs(folder / "db")
    assert re.fullmatch(re.escape(record.run_id) + "-[0-9a-f]{8}", name)
    config = ask(folder / "db", "get", "run", "--run", name)["config"]
    assert config.pop("_Group") == "p/gpt2"
    plain = json.loads((folder / "record.json").read_text())["config"]
    assert {key: config[key] for key in config if not key.startswith("_")} == plain
    kept, values = attached(folder / "db", name)
    assert kept == (folder / "record.json").read_bytes()
    assert {key: values[key] for key in record.metrics} == record.metrics
    for key in ("status", "step_ms_p50", "bytes_sent_per_step", "consensus_distance", "config_hash", "train_seconds"):
        assert values[key] == getattr(record, key)


def test_killed_run_continues_under_its_name_without_doubled_steps(sent, tmp_path):
    uninterrupted, done = sent
    assert said(done) == []
    database = tmp_path / "db"
    overrides = [*ROW, "logger=trackio", f"logger.folder={database}", "trainer.checkpoint_every=3", f"out={tmp_path}"]
    checkpoint = tmp_path / f"checkpoints/step_{3 * random.randint(2, 8):08d}"
    train_and_kill(*overrides, when=checkpoint.exists)
    wait_for(lambda: runs(database) != [] and ended(tmp_path), "the sending process outlives its killed training")
    (name,) = runs(database)
    before = [row["_step"] for row in history(database, name)]
    assert before == list(range(2, 2 * len(before) + 1, 2)) and 0 < len(before) < 15
    assert said(train(*overrides)) == []
    assert runs(database) == [name]
    steps = [row["_step"] for row in history(database, name)]
    assert steps == sorted(set(steps)) == list(range(2, 31, 2))
    assert history(database, name) == merged(tmp_path)
    hashes = read(uninterrupted / "record.json").parameters_sha256
    assert read(tmp_path / "record.json").parameters_sha256 == hashes


def test_trackio_changes_no_bit_and_only_one_of_several_ranks_sends(tmp_path):
    overrides = [*SMALL, "engine=distributed"]
    train(*overrides, f"out={tmp_path}/plain", ranks=2)
    train(*overrides, "logger=trackio", f"logger.folder={tmp_path}/db", f"out={tmp_path}/sent", ranks=2)
    assert len(runs(tmp_path / "db")) == 1
    plain, with_trackio = (read(tmp_path / name / "record.json") for name in ("plain", "sent"))
    assert with_trackio.parameters_sha256 == plain.parameters_sha256
    assert (with_trackio.config_hash, with_trackio.run_id) == (plain.config_hash, plain.run_id)


# What follows needs no training: the process is told of a metrics log and a record that stand already.


@pytest.fixture
def send(tmp_path, monkeypatch):
    """Sends a short run; returns what was said."""
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (2, 4, 6):
        log.append({"kind": "train", "step": step, "train_loss": 1.0 / step})
        log.append({"kind": "eval", "step": step, "val_loss": float("nan")})
    (tmp_path / "record.json").write_text(json.dumps({"status": "ok", "metrics": {}, "best": {}, "steps": 6}))

    def send(timeout_seconds: float = 20, anew: bool = False, killed: bool = False, **changes: str) -> list[str]:
        for name, value in changes.items():
            monkeypatch.setenv(name, value)
        lines: list[str] = []
        settings = TrackioLogger("trackio", "decent-bench", timeout_seconds, folder=str(tmp_path / "db"))
        process = LoggerProcess(settings, tmp_path)
        process.begin("a-run", load(SMALL).as_dict(), anew)
        process.record = None if killed else tmp_path / "record.json"
        process.close(lines.append)
        process.check(lines.append)
        return lines

    return send


def test_nothing_leaves_the_machine_whatever_the_environment_says(send, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    watched = tmp_path / "watched"
    assert send(PYTHONPATH=str(tmp_path), WATCHED=str(watched), **ELSEWHERE) == []
    (line,) = watched.read_text().splitlines()
    assert line.startswith("import")
    monkeypatch.undo()
    assert len(runs(tmp_path / "db")) == 1


def test_name_lasts_until_a_run_is_started_anew(send, tmp_path):
    for anew in (False, False, True):
        assert send(anew=anew) == []
    names = runs(tmp_path / "db")
    assert len(set(names)) == len(names) == 2
    for name in names:
        assert [row["_step"] for row in history(tmp_path / "db", name)] == [2, 4, 6]


def test_step_in_which_training_was_killed_is_not_sent_by_half(send, tmp_path):
    assert send(killed=True) == []
    (name,) = runs(tmp_path / "db")
    assert [row["_step"] for row in history(tmp_path / "db", name)] == [2, 4]
    assert ask(tmp_path / "db", "list", "artifacts")["artifacts"] == []


def test_continued_run_is_not_doubled_where_rows_wait_in_files(send, tmp_path):
    """On network file systems trackio keeps rows in files until a dashboard is opened."""
    for killed in (True, False):
        assert send(killed=killed, TRACKIO_STORAGE_MODE="jsonl") == []
    imported = "from trackio import fragments; fragments.import_inbox_dir()"
    subprocess.run(
        [sys.executable, "-c", imported], env={**os.environ, "TRACKIO_DIR": str(tmp_path / "db")}, check=True
    )
    (name,) = runs(tmp_path / "db")
    assert [row["_step"] for row in history(tmp_path / "db", name)] == [2, 4, 6]


def test_database_that_another_process_holds_is_left_behind(send, tmp_path):
    (tmp_path / "db").mkdir()
    with open(tmp_path / "db/decent-bench.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (line,) = send(timeout_seconds=0.5)
    assert line.startswith("trackio: ") and "The training is not affected" in line


def test_folder_that_cannot_be_written_is_said(send, tmp_path):
    (tmp_path / "db").write_text("in the way")
    (line,) = send()
    assert line.startswith("trackio: ") and str(tmp_path / "db") in line


def test_database_that_is_none_is_said(send, tmp_path):
    (tmp_path / "db").mkdir()
    (tmp_path / "db/decent-bench.db").write_text("no database" * 1000)
    (line,) = send()
    assert line.startswith("trackio: ") and "file is not a database" in line


@needs.root
@pytest.mark.parametrize("killed", [False, True])  # with no record to attach, only trackio's own thread meets the disk
def test_full_disk_is_said(send, tmp_path, killed):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in range(8, 4000):
        log.append({"kind": "train", "step": step, "train_loss": 1.0 / step})
    with small_disk(tmp_path / "db", "400k"):
        (line,) = send(killed=killed)
    assert line.startswith("trackio: ") and "disk is full" in line


def test_missing_trackio_is_said(send, tmp_path):
    (tmp_path / "hidden/trackio").mkdir(parents=True)
    (tmp_path / "hidden/trackio/__init__.py").write_text("raise ModuleNotFoundError('No module named trackio')")
    (line,) = send(PYTHONPATH=str(tmp_path / "hidden"))
    assert line.startswith("trackio: ModuleNotFoundError: No module named trackio. The training is not affected")


def test_command_of_the_page_shows_the_run(send, tmp_path):
    assert send() == []
    (line,) = re.findall("^TRACKIO_DIR=.*$", (ROOT / "docs/dashboards.md").read_text(), flags=re.M)
    folder, _, *words = line.split()
    assert folder == f"TRACKIO_DIR={load(['logger=trackio']).logger.folder}"
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "db"), "BROWSER": "true", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([TRACKIO, *words], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = next(found[0] for line in process.stdout if (found := re.search(r"http://127.0.0.1:\d+/", line)))
            question = urllib.request.Request(
                address + "api/get_runs_for_project",
                data=b'{"project": "decent-bench"}',
                headers={"content-type": "application/json"},
            )
            with urllib.request.urlopen(question, timeout=30) as answer:
                (run,) = json.load(answer)["data"]
        finally:
            process.kill()
    assert run["name"] == (tmp_path / "trackio/id").read_text()


def test_logger_has_no_effect_on_the_configuration_hash():
    assert load([*ROW, "logger=trackio", "logger.folder=elsewhere"]).config_hash == load(ROW).config_hash


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["logger=trackioo"], "logger=trackioo: no such logger; did you mean trackio?"),
        (["logger=trackio", "logger.mode=online"], "logger.mode: no such key"),
        (["logger=trackio", "logger.timeout_seconds=0"], "logger.timeout_seconds=0.0: must be more than 0"),
    ],
)
def test_mistakes_are_named(overrides, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        load(overrides)
