"""Other processes, as Linux shows them, and waiting for what they do."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path


def wait_for(there: Callable[[], object], what: str, seconds: float = 60, every: float = 0.02) -> None:
    """Return as soon as `there` holds; `what` has gone wrong if it never does."""
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline, what
        time.sleep(every)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def still_running(pids: Iterable[int], seconds: float = 10) -> list[int]:
    """Those that have not ended after a while."""
    deadline = time.monotonic() + seconds
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [pid for pid in pids if _runs(pid)]
