"""Starts the workers of a lab on this machine, as torchrun would: one process a worker."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from decent_core.lab.namespaces import DEVICE, address
from decent_core.system.processes import stop_all

PORT = 29500
POLL_SECONDS = 0.1
STOP_SECONDS = 30  # for a stopped worker to save a checkpoint
PR_SET_PDEATHSIG = 1
#: workers with the same host name are on one node
ENTER = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'


def run_workers(names: Sequence[str], local_size: int, command: Sequence[str]) -> int:
    """Run the command for every worker of every host; returns the first failure's exit status, or 0."""
    size = len(names) * local_size
    rendezvous = {"MASTER_ADDR": address(0), "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": DEVICE}
    starts = [
        (
            _variables(rank, size, local_size) | rendezvous,
            _inside(names[rank // local_size], rank // local_size, command),
        )
        for rank in range(size)
    ]
    return _wait_for_all(starts)


def run_on_loopback(workers: int, command: Sequence[str]) -> int:
    """The same without a lab, so without root: one node, whose workers talk over the loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    starts = [(_variables(rank, workers, workers) | rendezvous, _program(command)) for rank in range(workers)]
    return _wait_for_all(starts)


def _wait_for_all(starts: Sequence[tuple[dict[str, str], list[str]]]) -> int:
    """Start a process for each (variables, command) and wait for all; the first one's standard output is shown."""
    processes: list[subprocess.Popen] = []
    try:
        for variables, command in starts:
            processes.append(_start(variables, command, silent=bool(processes)))
        while True:
            statuses = [process.poll() for process in processes]
            failed = next((status for status in statuses if status), None)
            if failed is not None:
                return failed if failed > 0 else 128 - failed
            if None not in statuses:
                return 0
            time.sleep(POLL_SECONDS)
    finally:
        stop_all(processes, STOP_SECONDS)


def _start(variables: dict[str, str], command: Sequence[str], silent: bool) -> subprocess.Popen:
    return subprocess.Popen(
        command,
        env={"OMP_NUM_THREADS": "1", **os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if silent else None,
        preexec_fn=_die_with_parent,
        start_new_session=True,  # Ctrl-C reaches us alone, and we stop them
    )


def _variables(rank: int, size: int, local_size: int) -> dict[str, str]:
    """What torchrun would set."""
    names = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank % local_size, "LOCAL_WORLD_SIZE": local_size}
    return {name: str(value) for name, value in names.items()}


def _inside(host: str, node: int, command: Sequence[str]) -> list[str]:
    return ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", ENTER, f"node{node}", *_program(command)]


def _program(command: Sequence[str]) -> list[str]:
    """The command, where python is this one."""
    return [sys.executable if command[0] in ("python", "python3") else command[0], *command[1:]]


def _die_with_parent() -> None:
    """The kernel kills this process when the lab is gone, even if that was killed itself."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
