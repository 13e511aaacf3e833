"""Every worker averages with all others every step: W = J."""

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import disjoint
from decent_core.topology.schedule import Schedule, static

SPARSE = True


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves any number of workers."""
    return static(disjoint(layout.size, np.arange(layout.size)[None, :]))
