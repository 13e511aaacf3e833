"""Every worker averages with both neighbours on a ring, 1/3 each (two workers: 1/2 each)."""

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import neighbours
from decent_core.topology.schedule import Schedule, static

SPARSE = True


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves any number of workers. rho = (1 + 2 cos(2 pi / N)) / 3 from N = 4 on."""
    workers = np.arange(layout.size)
    return static(neighbours(layout.size, np.stack((workers - 1, workers + 1), axis=1) % layout.size))
