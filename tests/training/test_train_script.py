"""`python -m scripts.train` as a user runs it: records, exit statuses, launchers, signals, kill -9."""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from decent_core.records.record import read
from decent_core.records.step_log import MetricsLog
from tests.support import ROOT

ROW = ["experiment=p/gpt2/accum_adamw_aer", "scale=smoke"]
TIMES = ("train_seconds", "step_ms", "wait_ms", "samples_per_second")


def command(*overrides: str, ranks: int = 0) -> list[str]:
    launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"] if ranks else []
    return [sys.executable, "-m", *launcher, "scripts.train", *overrides]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def train(*overrides: str, ranks: int = 0) -> subprocess.CompletedProcess:
    arguments = command(*overrides, ranks=ranks)
    return subprocess.run(arguments, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=200)


def record_of(done: subprocess.CompletedProcess):
    """The record whose path is the last line of standard output."""
    return read(ROOT / done.stdout.strip().splitlines()[-1])


def log_without_times(folder: Path) -> list[dict]:
    return [{k: v for k, v in line.items() if k not in TIMES} for line in MetricsLog(folder / "metrics.jsonl").lines()]


def curve_without_times(record) -> list[tuple]:
    return [(point["step"], point["values"]) for point in record.curve]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run of 30 steps."""
    folder = tmp_path_factory.mktemp("whole")
    done = train(*ROW, "trainer.steps=30", "trainer.eval_every=10", f"out={folder}")
    assert done.returncode == 0, done.stderr
    return folder, record_of(done), done


def test_run_writes_its_record_and_prints_the_path_last(whole):
    folder, record, done = whole
    assert done.stdout.strip() == str(folder / "record.json")
    assert "Warning" not in done.stderr
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


def test_run_killed_at_any_step_continues_exactly(whole, tmp_path):
    overrides = [*ROW, "trainer.steps=30", "trainer.eval_every=10", "trainer.checkpoint_every=3", f"out={tmp_path}"]
    step = random.randint(4, 24)
    process = subprocess.Popen(
        command(*overrides), cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not list((tmp_path / "checkpoints").glob(f"step_{step - step % 3:08d}")):
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    done = train(*overrides)
    assert done.returncode == 0, done.stderr
    assert "continues from the checkpoint of step" in done.stderr
    _, expected, _ = whole
    record = record_of(done)
    assert record.parameters_sha256 == expected.parameters_sha256
    assert record.metrics == expected.metrics
    assert curve_without_times(record) == curve_without_times(expected)
    assert log_without_times(tmp_path) == log_without_times(whole[0])


def test_sigterm_saves_and_exits_with_its_own_status(whole, tmp_path):
    overrides = [*ROW, "trainer.steps=30", "trainer.eval_every=10", f"out={tmp_path}"]
    process = subprocess.Popen(
        command(*overrides), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "metrics.jsonl").exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 75, stderr
    assert "preempted: stopped by SIGTERM" in stderr and "Traceback" not in stderr
    record = read(Path(stdout.strip().splitlines()[-1]))
    assert record.status == "preempted" and 0 < record.steps < 30
    done = train(*overrides)
    assert record_of(done).parameters_sha256 == whole[1].parameters_sha256
    other = train(*ROW, "trainer.steps=30", "trainer.eval_every=10", "seed=2", f"out={tmp_path}")
    assert other.returncode == 2
    assert "seed is 1 there, 2 here" in other.stderr and "Traceback" not in other.stderr


def test_torchrun_gives_what_virtual_workers_give(tmp_path):
    shape = ["scale=smoke", "method=awc", "topology=aer", "local_size=2", "optimizer=accum_adamw", "trainer.steps=12"]
    distributed = train(*shape, "engine=distributed", f"out={tmp_path}/d", ranks=4)
    assert distributed.returncode == 0, distributed.stderr
    virtual = record_of(train(*shape, "world_size=4", f"out={tmp_path}/v"))
    record = record_of(distributed)
    assert (record.engine, record.world_size, record.local_size) == ("distributed", 4, 2)
    assert record.metrics == pytest.approx(virtual.metrics, rel=1e-5)
    assert record.bytes_sent_per_step == virtual.bytes_sent_per_step
    assert record.consensus_distance == pytest.approx(virtual.consensus_distance, rel=1e-3)
    assert record.wait_ms_p50 is not None and virtual.wait_ms_p50 is None


def test_diverged_run_exits_with_its_own_status(tmp_path):
    done = train(*ROW, "optimizer.lr=1e30", "trainer.diverged_patience=1", f"out={tmp_path}")
    record = record_of(done)
    assert (done.returncode, record.status) == (3, "diverged")
    assert "the training loss is not finite from step" in record.message
    assert "Traceback" not in done.stderr


def hold(folder: Path):
    lock = open(folder / ".lock", "w")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@pytest.mark.parametrize(
    ("overrides", "ranks", "message"),
    [
        (["engine=distributed"], 0, "no launcher found; start with torchrun"),
        (["topology=one_peer_hypercube", "method=awc", "world_size=6"], 0, "one_peer_hypercube"),
        (["task.global_batch=13"], 0, "13"),
        (["engine=distributed", "engine.timeout_seconds=0"], 0, "engine.timeout_seconds=0.0: must be greater than 0"),
        (["engine=distributed", "engine.bucket_mib=-1"], 0, "engine.bucket_mib=-1.0: must be greater than 0"),
        (["task.data_dir=/dev/null/x"], 0, "can't be prepared (Not a directory): choose another task.data_dir"),
        (["resume=nowhere"], 0, "checkpoint nowhere refused"),
    ],
)
def test_mistakes_end_with_status_2_and_one_message(tmp_path, overrides, ranks, message):
    done = train("scale=smoke", f"out={tmp_path}", *overrides, ranks=ranks)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) <= 2
    assert done.stdout == ""


def test_mistakes_under_a_launcher_are_named(tmp_path):
    for overrides, message in [
        (["engine=virtual"], "torchrun has started 2 processes, and each would train all workers"),
        (["engine=distributed", "world_size=4"], "world_size=4: torchrun has started 2 processes"),
    ]:
        done = train("scale=smoke", f"out={tmp_path}", *overrides, ranks=2)
        assert done.returncode != 0
        assert message in done.stderr


def test_second_run_in_the_same_folder_is_refused(tmp_path):
    with hold(tmp_path):
        done = train(*ROW, f"out={tmp_path}")
    assert done.returncode == 2
    assert "another run is writing there" in done.stderr
    assert json.dumps(sorted(p.name for p in tmp_path.iterdir())) == '[".lock"]'
