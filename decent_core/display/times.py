"""Times as people read them: percentiles of step times, and how long a run still takes. No torch."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np


def percentile(times: Sequence[float], percent: float) -> float | None:
    """Percentile of the times (linear interpolation); None if there are none."""
    return float(np.percentile(times, percent)) if len(times) else None


class TimeLeft:
    """Estimates the time left for one run or many, several at once, whose steps take unequally long.

    `steps` is what each run has to do, in any unit. The pace of a run counts from the first call in which it is
    running, everything included: evaluation, checkpoints, logging. A run that has not begun is taken to last as long
    as the mean of those known with as many steps, or else of all. `now` is a clock in seconds.
    """

    def __init__(self, steps: Mapping[str, int], now: Callable[[], float] = time.monotonic):
        self._steps, self._now = steps, now
        self._seen: dict[str, tuple[float, int]] = {}  # when a run was first seen running, and its steps then
        self._seconds: dict[str, float] = {}  # a whole run's, as known by now

    def seconds(self, done: Mapping[str, int], running: Sequence[str]) -> float | None:
        """Seconds until all runs have done their steps; None while nothing is known."""
        for name in self._seen.keys() | set(running):
            since, first = self._seen.setdefault(name, (self._now(), done[name]))
            if name in running and done[name] > first:
                self._seconds[name] = (self._now() - since) / (done[name] - first) * self._steps[name]
        if not self._seconds:
            return None
        left = [self._whole(name) * (1 - done[name] / steps) for name, steps in self._steps.items()]
        return math.fsum(left) / max(1, len(running))

    def _whole(self, name: str) -> float:
        if name in self._seconds:
            return self._seconds[name]
        as_long = [value for other, value in self._seconds.items() if self._steps[other] == self._steps[name]]
        return fmean(as_long or self._seconds.values())


def readable(seconds: float | None) -> str:
    """`0:07`, `12:30`, `3:05:00`; `?` for an unknown time."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
