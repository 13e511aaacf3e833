"""What some tests need beyond `make setup`. CI installs all of it: there they run, or fail, and are never skipped."""

import fcntl
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT_USER = hasattr(os, "geteuid") and os.geteuid() == 0
#: needs that are markers too, for `pytest -m`: whether this machine has it, and what it is
MARKED = {
    "slurm": (ROOT_USER and shutil.which("slurmctld") is not None, "root and Slurm (slurm-wlm, munge)"),
    "network": (ROOT_USER and shutil.which("ip") is not None, "root and iproute2"),
    "browser": (shutil.which("chromium") is not None, "chromium"),
}


def _needs(there: bool, what: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not there and os.environ.get("CI") != "true", reason=f"needs {what}")


slurm, namespaces, chromium = pytest.mark.slurm, pytest.mark.network, pytest.mark.browser
mpirun = _needs(shutil.which("mpirun") is not None, "mpirun")
root = _needs(ROOT_USER, "root")
decent_dp = _needs(importlib.util.find_spec("decent_dp") is not None, "the extra compare (make setup)")
fairseq = _needs(importlib.util.find_spec("fairseq") is not None, "make setup-fairseq")
dali = _needs(all(importlib.util.find_spec(name) for name in ("nvidia", "nvidia.dali")), "make setup-dali")


def skip_what_is_missing(item: pytest.Item) -> None:
    """Skip a test whose marker names a need that this machine lacks; in CI it runs, and fails."""
    for name, (there, what) in MARKED.items():
        if item.get_closest_marker(name) and not there and os.environ.get("CI") != "true":
            pytest.skip(f"needs {what}")


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Inside, no other process of this machine's tests uses what there is only one of, such as a port."""
    with open(Path(tempfile.gettempdir()) / f"decent-bench-tests-{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
