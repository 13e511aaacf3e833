"""Means with 95 % Student-t intervals. No torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """Mean over n runs, with half the width of its interval; None for a single run."""

    mean: float
    half_width: float | None
    n: int


def interval(values: Sequence[float]) -> Interval | None:
    """Mean and t-interval of independent values; None for none."""
    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, None, 1)
    quantile = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return Interval(mean, quantile * deviation / math.sqrt(n), n)
