"""Worker 0 averages with all others, the others with worker 0 alone, Metropolis weights.

Its round holds N x N numbers, since the centre has N - 1 neighbours.
"""

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import metropolis
from decent_core.topology.schedule import Schedule, static


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves any number of workers. rho = 1 - 1/N."""
    leaves = np.arange(1, layout.size)
    return static(metropolis(layout.size, np.stack((np.zeros_like(leaves), leaves), axis=1)))
