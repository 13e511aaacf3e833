"""Training runs as tests start, kill and read them."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from decent_core.records.step_log import MetricsLog
from tests.support import commands
from tests.support.processes import wait_for

ROW = ["experiment=p/gpt2/accum_adamw_aer", "scale=smoke", "trainer.steps=30", "trainer.eval_every=10"]
SMALL = ["task=regression", "method=decentlam", "topology=ring", "optimizer=sgd", "scale=smoke"]
TIMES = ("train_seconds", "step_ms", "wait_ms", "samples_per_second")


def train(*overrides: str, ranks: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """A training that has ended well."""
    done = commands.run("scripts.train", *overrides, ranks=ranks, **environment)
    assert done.returncode == 0, done.stderr
    return done


def train_and_kill(*overrides: str, when: Callable[[], bool], then: Callable[[], object] = lambda: True) -> None:
    """A training that is stopped as soon as `when` holds, and killed when `then` does as well."""
    process = commands.start("scripts.train", *overrides)
    wait_for(lambda: when() or process.poll() is not None, "it does not come so far", every=0.002)
    ended = process.poll()
    if ended is None:
        process.send_signal(signal.SIGSTOP)
        wait_for(then, "it was stopped too early")
    process.kill()
    assert ended is None, f"it ended before it was killed\n{process.stderr}"


def merged(folder: Path) -> list[dict]:
    """The metrics log with one entry a step."""
    steps: dict[int, dict] = {}
    for line in MetricsLog(folder / "metrics.jsonl").lines():
        steps.setdefault(line["step"], {"_step": line["step"]}).update(line)
    return [{k: v for k, v in row.items() if k not in ("kind", "step") and v is not None} for row in steps.values()]


def log_without_times(folder: Path) -> list[dict]:
    """The metrics log without what a clock has measured."""
    return [{k: v for k, v in line.items() if k not in TIMES} for line in MetricsLog(folder / "metrics.jsonl").lines()]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Inside, a new folder is a disk of so many bytes; needs root."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        assert os.environ.get("CI") != "true", "what CI can run is never skipped there"
        pytest.skip("this machine mounts no tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
