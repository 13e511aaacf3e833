"""A function over many pieces by several processes, in order and in bounded memory."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WAITING = 4  # pieces a process, enough that reading and computing don't wait for each other


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], processes: int) -> Iterator[Result]:
    """`function` of each item, in order; one process computes in this one. `function` must be picklable."""
    if processes == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > WAITING * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
