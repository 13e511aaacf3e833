"""Times as people read them: percentiles of step times, and how long a run still takes. No torch."""

import time
from collections.abc import Callable, Sequence

import numpy as np


def percentile(times: Sequence[float], percent: float) -> float | None:
    """Percentile of the times (linear interpolation); None if there are none."""
    return float(np.percentile(times, percent)) if len(times) else None


class TimeLeft:
    """Estimates the time left from the pace since it was made, everything included: evaluation, checkpoints, logging.

    `done` is the work behind us by then (a resumed run has a head start), in any unit; `now` a clock in seconds.
    """

    def __init__(self, done: float = 0, now: Callable[[], float] = time.monotonic):
        self._first, self._since, self._now = done, now(), now

    def seconds(self, done: float, total: float) -> float | None:
        """Seconds until `total` at this pace; None while nothing has been done."""
        if done <= self._first:
            return None
        return (self._now() - self._since) / (done - self._first) * (total - done)


def readable(seconds: float | None) -> str:
    """`0:07`, `12:30`, `3:05:00`; `?` for an unknown time."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
