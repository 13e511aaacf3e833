"""Every worker averages with its successor on a ring, 1/2 each; nothing flows the other way."""

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import circulant
from decent_core.topology.schedule import Schedule, static

SPARSE = True


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves any number of workers. rho = cos(pi / N)."""
    return static(circulant(layout.size, {0: 0.5, 1: 0.5}))
