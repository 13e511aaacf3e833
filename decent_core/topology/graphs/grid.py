"""Every worker averages with its up to four neighbours on a grid of rows and columns, Metropolis weights."""

import math

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import metropolis
from decent_core.topology.schedule import Schedule, static


def schedule(layout: ClusterLayout, rows: int | None = None) -> Schedule:
    """Serves any world that `rows` divides; without `rows`, the grid nearest to a square is taken."""
    divisors = [d for d in range(1, math.isqrt(layout.size) + 1) if layout.size % d == 0]
    rows = divisors[-1] if rows is None else rows
    if rows < 1 or layout.size % rows:
        works = sorted({*divisors, *(layout.size // d for d in divisors)})
        raise ValueError(f"rows must divide the number of workers (works: {works}), got {rows}")
    number = np.arange(layout.size).reshape(rows, -1)
    down = np.stack((number[:-1].ravel(), number[1:].ravel()), axis=1)
    right = np.stack((number[:, :-1].ravel(), number[:, 1:].ravel()), axis=1)
    return static(metropolis(layout.size, np.concatenate((down, right))))
