"""Training runs whose log goes to a dashboard as well."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from decent_core.records.step_log import MetricsLog
from tests.support import ROOT

ROW = ["experiment=p/gpt2/accum_adamw_aer", "scale=smoke", "trainer.steps=30", "trainer.eval_every=10"]
SMALL = ["task=regression", "method=decentlam", "topology=ring", "optimizer=sgd", "scale=smoke"]


def command(*overrides: str, ranks: int = 0) -> list[str]:
    launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"] if ranks else []
    return [sys.executable, "-m", *launcher, "scripts.train", *overrides]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **changes}


def train(*overrides: str, ranks: int = 0, **changes: str) -> subprocess.CompletedProcess:
    """A finished training."""
    done = subprocess.run(
        command(*overrides, ranks=ranks),
        cwd=ROOT,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done


def train_and_kill(*overrides: str, when: Callable[[], bool]) -> None:
    """A training that is killed as soon as `when` holds."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command(*overrides), cwd=ROOT, env=environment(), stdout=quiet, stderr=quiet) as process:
        while not when():
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.002)
        process.kill()


def wait_until(there: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not there():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def merged(folder: Path) -> list[dict]:
    """The metrics log with one entry a step."""
    steps: dict[int, dict] = {}
    for line in MetricsLog(folder / "metrics.jsonl").lines():
        steps.setdefault(line["step"], {"_step": line["step"]}).update(line)
    return [{k: v for k, v in row.items() if k not in ("kind", "step") and v is not None} for row in steps.values()]


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
