"""Round k: worker i averages with worker i + 2^k (mod N), 1/2 each, for k = 0 .. ceil(log2 N) - 1; directed.

Ying et al., "Exponential graph is provably efficient for decentralized deep training" (NeurIPS 2021), eq. 7.
"""

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import circulant
from decent_core.topology.schedule import Schedule, identity

SPARSE = True


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves any number of workers. The product over one period is J exactly if N is a power of two."""
    if layout.size == 1:
        return identity(1)
    period = (layout.size - 1).bit_length()
    return Schedule(period, lambda step: circulant(layout.size, {0: 0.5, 2**step: 0.5}))
