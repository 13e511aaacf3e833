"""Round k: worker i keeps half of what it holds and pushes half to worker i + 2^k (mod N); for the method `sgp`.

Assran et al., "Stochastic gradient push for distributed deep learning" (ICML 2019), the directed exponential graph.
A push round promises that its columns sum to 1, no more.
"""

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import circulant
from decent_core.topology.schedule import Schedule, identity


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves any number of workers."""
    if layout.size == 1:
        return identity(1, push=True)
    period = (layout.size - 1).bit_length()
    return Schedule(period, lambda step: circulant(layout.size, {0: 0.5, -(2**step): 0.5}), push=True)
