"""`python -m scripts.train` as a user runs it: records, exit statuses, launchers, signals, kill -9."""

import fcntl
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from decent_core.records.record import read
from tests.support import ROOT, commands
from tests.support.processes import wait_for
from tests.support.runs import ROW, log_without_times, train, train_and_kill


def record_of(done: subprocess.CompletedProcess):
    """The record whose path is the last line of standard output."""
    return read(ROOT / done.stdout.strip().splitlines()[-1])


def curve_without_times(record) -> list[tuple]:
    return [(point["step"], point["values"]) for point in record.curve]


def test_run_writes_its_record_and_prints_the_path_last(plain_run, tmp_path):
    """In a Python of its own, with all that it imports."""
    command = [sys.executable, "-m", "scripts.train", *ROW, f"out={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path}/record.json\n"
    assert "Warning" not in done.stderr
    assert read(tmp_path / "record.json").parameters_sha256 == plain_run[1].parameters_sha256


def test_record_holds_what_was_run_and_measured(plain_run):
    folder, record = plain_run
    assert (record.status, record.source, record.steps, record.world_size) == ("ok", "measured", 30, 8)
    assert (record.method, record.optimizer, record.topology) == ("awc", "accum_adamw", "aer")
    names = {"val_loss", "val_perplexity"}
    assert record.metrics.keys() == {f"{kind}{name}" for kind in ("", "local_", "own_shard_") for name in names}
    assert [point["step"] for point in record.curve] == [10, 20, 30]
    assert record.bytes_sent_per_step > 0 and record.consensus_distance > 0 and record.step_ms_p50 > 0
    assert len(set(record.parameters_sha256)) == 8
    assert [line["step"] for line in log_without_times(folder)] == sorted(
        line["step"] for line in log_without_times(folder)
    )


def test_run_killed_at_any_step_continues_exactly(plain_run, tmp_path):
    folder, expected = plain_run
    overrides = [*ROW, "trainer.checkpoint_every=3", f"out={tmp_path}"]
    train_and_kill(*overrides, when=(tmp_path / f"checkpoints/step_{3 * random.randint(1, 8):08d}").exists)
    done = train(*overrides)
    assert "continues from the checkpoint of step" in done.stderr
    record = record_of(done)
    assert record.parameters_sha256 == expected.parameters_sha256
    assert record.metrics == expected.metrics
    assert curve_without_times(record) == curve_without_times(expected)
    assert log_without_times(tmp_path) == log_without_times(folder)


def test_sigterm_saves_and_exits_with_its_own_status(plain_run, tmp_path):
    process = commands.start("scripts.train", *ROW, f"out={tmp_path}")
    wait_for(lambda: (tmp_path / "metrics.jsonl").exists() or process.poll() is not None, "no step", every=0.002)
    process.send_signal(signal.SIGTERM)
    stopped = process.wait()
    assert stopped.returncode == 75, stopped.stderr
    assert "preempted: stopped by SIGTERM" in stopped.stderr and "Traceback" not in stopped.stderr
    record = record_of(stopped)
    assert record.status == "preempted" and 0 < record.steps < 30
    done = train(*ROW, f"out={tmp_path}")
    assert record_of(done).parameters_sha256 == plain_run[1].parameters_sha256
    other = commands.run("scripts.train", *ROW, "seed=2", f"out={tmp_path}")
    assert other.returncode == 2
    assert "seed is 1 there, 2 here" in other.stderr and "Traceback" not in other.stderr


def test_ranks_give_what_virtual_workers_give(tmp_path):
    shape = ["scale=smoke", "method=awc", "topology=aer", "local_size=2", "optimizer=accum_adamw", "trainer.steps=12"]
    distributed = train(*shape, "engine=distributed", f"out={tmp_path}/d", ranks=4)
    virtual = record_of(train(*shape, "world_size=4", f"out={tmp_path}/v"))
    record = record_of(distributed)
    assert (record.engine, record.world_size, record.local_size) == ("distributed", 4, 2)
    assert record.metrics == pytest.approx(virtual.metrics, rel=1e-5)
    assert record.bytes_sent_per_step == virtual.bytes_sent_per_step
    assert record.consensus_distance == pytest.approx(virtual.consensus_distance, rel=1e-3)
    assert record.wait_ms_p50 is not None and virtual.wait_ms_p50 is None


def test_diverged_run_exits_with_its_own_status(tmp_path):
    done = commands.run("scripts.train", *ROW, "optimizer.lr=1e30", "trainer.diverged_patience=1", f"out={tmp_path}")
    record = record_of(done)
    assert (done.returncode, record.status) == (3, "diverged")
    assert "the training loss is not finite from step" in record.message
    assert "Traceback" not in done.stderr


def test_a_diverged_run_of_a_job_leaves_its_status_to_the_record(tmp_path):
    shape = ["optimizer.lr=1e30", "trainer.diverged_patience=1", f"out={tmp_path}"]
    done = commands.run("scripts.train", "--status-in-record", *ROW, *shape)
    assert (done.returncode, record_of(done).status) == (0, "diverged")
    assert commands.run("scripts.train", "--status-in-record", *ROW, "seed=two").returncode == 2


def hold(folder: Path):
    lock = open(folder / ".lock", "w")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["engine=distributed"], "no launcher found; start with torchrun"),
        (["topology=one_peer_hypercube", "method=awc", "world_size=6"], "one_peer_hypercube"),
        (["task.global_batch=13"], "13"),
        (["engine=distributed", "engine.timeout_seconds=0"], "engine.timeout_seconds=0.0: must be greater than 0"),
        (["engine=distributed", "engine.bucket_mib=-1"], "engine.bucket_mib=-1.0: must be greater than 0"),
        (["task.data_dir=/dev/null/x"], "can't be prepared (Not a directory): choose another task.data_dir"),
        (["resume=nowhere"], "checkpoint nowhere refused"),
    ],
)
def test_mistakes_end_with_status_2_and_one_message(tmp_path, overrides, message):
    done = commands.run("scripts.train", "scale=smoke", f"out={tmp_path}", *overrides)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) <= 2
    assert done.stdout == ""


def test_mistakes_under_a_launcher_are_named(tmp_path):
    for overrides, message in [
        (["engine=virtual"], "torchrun has started 2 processes, and each would train all workers"),
        (["engine=distributed", "world_size=4"], "world_size=4: torchrun has started 2 processes"),
    ]:
        done = commands.run("scripts.train", "scale=smoke", f"out={tmp_path}", *overrides, ranks=2)
        assert done.returncode != 0
        assert message in done.stderr


def test_second_run_in_the_same_folder_is_refused(tmp_path):
    with hold(tmp_path):
        done = commands.run("scripts.train", *ROW, f"out={tmp_path}")
    assert done.returncode == 2
    assert "another run is writing there" in done.stderr
    assert json.dumps(sorted(p.name for p in tmp_path.iterdir())) == '[".lock"]'
