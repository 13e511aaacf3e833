"""Every worker averages with its four neighbours on an m x m grid whose edges are joined, 1/5 each.

On 2 x 2 both neighbours of an axis are the same worker, and the weights are 1/3.
"""

import math

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import neighbours
from decent_core.topology.schedule import Schedule, static


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves squares. rho = (3 + 2 cos(2 pi / m)) / 5 from m = 3 on."""
    m = math.isqrt(layout.size)
    if m * m != layout.size:
        raise ValueError(f"the number of workers must be a square (nearest: {m * m} and {(m + 1) ** 2})")
    row, column = np.divmod(np.arange(layout.size), m)
    steps = ((1, 0), (-1, 0), (0, 1), (0, -1))
    return static(neighbours(layout.size, np.stack([(row + r) % m * m + (column + c) % m for r, c in steps], axis=1)))
