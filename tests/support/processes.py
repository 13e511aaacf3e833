"""Other processes, as Linux shows them."""

import time
from pathlib import Path


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def still_running(pids, seconds=10):
    """Those that have not ended after a while."""
    deadline = time.monotonic() + seconds
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [pid for pid in pids if _runs(pid)]
