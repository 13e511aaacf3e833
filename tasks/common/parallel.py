"""A function over many pieces by several processes, in order and in bounded memory."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from typing import Any, TypeVar

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")

WAITING = 4  # pieces a process, enough that reading and computing don't wait for each other

_shared: Any  # in a worker process


def ordered_map(
    function: Callable[[Item, Shared], Result], items: Iterable[Item], shared: Shared, processes: int
) -> Iterator[Result]:
    """`function` of each item and of what all share, in order; one process computes in this one.

    All must be picklable; `shared` goes to each process once. The processes leave Ctrl-C to this one, and end with it
    however it ends.
    """
    if processes == 1:
        for item in items:
            yield function(item, shared)
        return
    waiting: deque[Future[Result]] = deque()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, initializer=_start, initargs=(shared,)) as pool:
        for item in items:
            with signals_blocked([signal.SIGINT]):
                waiting.append(pool.submit(partial(_call, function), item))
            if len(waiting) > WAITING * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def signals_blocked(signals: Collection[int]) -> Iterator[None]:
    """Processes started inside the block do not receive these signals: they inherit the signal mask."""
    resource_tracker.ensure_running()  # where it starts, it would unblock some
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(shared: Any) -> None:
    global _shared
    _shared = shared
    end_with_parent()


def _call(function: Callable[[Item, Any], Result], item: Item) -> Result:
    return function(item, _shared)


def end_with_parent() -> None:
    """From now on this process ends when its parent does; it would wait for work for ever if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
