import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace

import pytest

from decent_core import record as module
from decent_core.compare import make_row
from decent_core.record import (
    WITHOUT_EFFECT,
    MetricsLog,
    Record,
    config_hash,
    git_state,
    read,
    read_all,
    versions,
    write,
    write_atomically,
)
from tests.records import make_record


def altered(path, **changes):
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}))
    return path


@pytest.fixture
def path(tmp_path):
    return write(make_record(), tmp_path / "run" / "record.json")


def test_record_read_gives_back_what_was_written(path):
    assert read(path) == make_record()


def test_record_holds_every_field_of_the_contract(path):
    contract = """schema run_id source status task optimizer method topology engine scale world_size local_size seed
        overrides config git_commit git_dirty versions device started_at steps samples train_seconds eval_seconds
        step_ms_p50 step_ms_p95 wait_ms_p50 bytes_sent_per_step peak_gib metrics best consensus_distance curve"""
    assert set(contract.split()) <= json.loads(path.read_text()).keys()


def test_record_writes_null_for_values_that_are_not_finite(tmp_path):
    record = make_record(metrics={"val_loss": math.nan}, train_seconds=1.0, consensus_distance=math.inf)
    content = json.loads(write(record, tmp_path / "record.json").read_text(), parse_constant=pytest.fail)
    assert content["metrics"] == {"val_loss": None}
    assert content["consensus_distance"] is None


def test_record_of_before_the_direction_was_noted_is_read_and_judged_by_its_name(path):
    old = read(altered(path, lower_is_better=...))
    assert old.lower_is_better is None
    assert make_row("", [old]).lower_is_better
    assert not make_row("", [replace(old, primary_metric="top1")]).lower_is_better
    assert make_row("", [replace(old, primary_metric="error_rate", lower_is_better=True)]).lower_is_better


@pytest.mark.parametrize("field", [field.name for field in fields(Record) if field.name != "lower_is_better"])
def test_record_names_file_and_field_that_is_missing(path, field):
    with pytest.raises(ValueError, match=field) as caught:
        read(altered(path, **{field: ...}))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", "1"), ("seed", True), ("seed", 1.5), ("status", "fine"), ("source", None), ("local_size", [4, "4"]),
        ("metrics", {"val_loss": "low"}), ("curve", {}), ("git_dirty", 0), ("train_seconds", None), ("overrides", [1]),
    ],
)  # fmt: skip
def test_record_names_field_of_another_type(path, field, value):
    with pytest.raises(ValueError, match=f"field '{field}' is"):
        read(altered(path, **{field: value}))


def test_record_takes_whole_numbers_for_floats_and_lists_of_node_sizes(path):
    assert read(altered(path, train_seconds=4, local_size=[3, 5])).local_size == [3, 5]


def test_record_refuses_unknown_fields_schemas_and_files_that_are_no_records(path, tmp_path):
    with pytest.raises(ValueError, match="unknown field 'sede'"):
        read(altered(path, sede=1))
    with pytest.raises(ValueError, match="schema is 99"):
        read(altered(path, sede=..., schema=99))
    for content in ("{", "[]", ""):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"record\.json"):
            read(path)
    with pytest.raises(ValueError, match="nowhere"):
        read(tmp_path / "nowhere.json")


def test_record_read_all_takes_record_files_only(path, tmp_path):
    (path.parent / "checkpoints").mkdir()
    (path.parent / "checkpoints" / "manifest.json").write_text("{}")
    assert read_all(tmp_path) == read_all(path) == [make_record()]


def test_config_hash_ignores_what_has_no_effect_and_nothing_else():
    config = make_record().config
    same = config | {"out": "elsewhere", "resume": "never", "trainer": {**config["trainer"], "threads": 3}}
    assert config_hash(same) == config_hash(config)
    for part, change in {"seed": 2, "world_size": 4, "trainer": {"steps": 41}, "method": {"name": "awc"}}.items():
        assert config_hash(config | {part: change}) != config_hash(config)
    over_seeds = WITHOUT_EFFECT | {"seed"}
    assert config_hash(config | {"seed": 2}, over_seeds) == config_hash(config, over_seeds)


def test_config_hash_survives_json():
    config = {"optimizer": {"betas": (0.9, 0.95), "lr": 0.1 + 0.2}, "b": 1, "a": None}
    assert config_hash(json.loads(json.dumps(config))) == config_hash(config)


def test_write_atomically_leaves_a_whole_file_whenever_it_is_killed(tmp_path):
    target = tmp_path / "file.txt"
    code = f"""
from pathlib import Path
from decent_core.record import write_atomically
for i in range(10**9):
    write_atomically(Path({str(target)!r}), f"{{i % 10}}" * 500_000)
"""
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", code])
        while not target.exists():
            time.sleep(0.01)
        time.sleep(0.05)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        content = target.read_text()
        assert len(content) == 500_000
        assert len(set(content)) == 1


def test_metrics_log_drops_later_steps_and_half_written_lines(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    assert log.lines() == []
    log.truncate_after(3)
    for step in range(1, 6):
        log.append({"step": step, "loss": math.nan if step == 2 else 1.0 / step})
    with open(log.path, "a") as stream:
        stream.write('{"step": 6, "lo')
    assert [line["step"] for line in log.lines()] == [1, 2, 3, 4, 5]
    log.truncate_after(3)
    log.append({"step": 4, "loss": 0.5})
    assert [(line["step"], line["loss"]) for line in log.lines()] == [(1, 1.0), (2, None), (3, 1 / 3), (4, 0.5)]
    log.append({"step": 4, "kind": "eval", "loss": 0.4})
    log.truncate_after(4)
    assert [line["step"] for line in log.lines()] == [1, 2, 3, 4, 4]
    log.truncate_after(4, finished=True)  # the last evaluation is made again
    assert [(line["step"], line["loss"]) for line in log.lines()][2:] == [(3, 1 / 3), (4, 0.5)]


def test_git_state_is_dirty_by_sources_alone(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        command = ["git", *identity, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setattr(module, "ROOT", tmp_path)
    assert git_state() == (None, None)
    git("init")
    for name in ("README.md", "conf/config.yaml"):
        write_atomically(tmp_path / name, "a")
    git("add", ".")
    git("commit", "-m", "a")
    commit = git("rev-parse", "HEAD")
    assert git_state() == (commit, False)
    write_atomically(tmp_path / "README.md", "b")
    assert git_state() == (commit, False)
    write_atomically(tmp_path / "decent_core" / "mine.py", "b")
    assert git_state() == (commit, True)


def test_versions_are_those_of_what_runs():
    import numpy

    assert versions()["numpy"] == numpy.__version__
    assert versions()["python"] == sys.version.split()[0]
