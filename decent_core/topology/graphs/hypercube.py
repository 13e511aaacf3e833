"""Every worker averages with all workers whose number differs in one bit, equal weights."""

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import neighbours
from decent_core.topology.schedule import Schedule, static


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves powers of two. rho = (k - 1) / (k + 1) for N = 2^k, k >= 1."""
    bits = 1 << np.arange(layout.log2)
    return static(neighbours(layout.size, np.arange(layout.size)[:, None] ^ bits))
