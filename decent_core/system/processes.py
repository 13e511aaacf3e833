"""Stopping child processes, being stopped, and how much memory a process has used."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def stop_all(processes: Sequence[subprocess.Popen], seconds: float) -> None:
    """Ask all to end, then wait; those that do not end in time are killed."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def stop_signals_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def peak_memory_mib() -> float:
    """The most memory that this process has held so far, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


@contextmanager
def ends_process(seconds: float, message: str) -> Iterator[None]:
    """A block that takes longer than `seconds` ends this process with status 2, after the message on standard error."""

    def end() -> None:
        print(message, file=sys.stderr, flush=True)
        os._exit(2)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
