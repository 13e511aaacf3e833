"""Round k: pairs (i, i XOR 2^k), weight 1/2, for k = 0 .. log2(N) - 1; the exact mean after one period.

Called `one-peer-exp` in Decent-DP and `Exp` in arXiv 2410.11998.
"""

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import disjoint
from decent_core.topology.schedule import Schedule, identity

SPARSE = True


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves powers of two."""
    if layout.log2 == 0:
        return identity(1)
    lower = np.arange(layout.size)

    def pairs(step: int) -> np.ndarray:
        first = lower[lower & 2**step == 0]
        return np.stack((first, first ^ 2**step), axis=1)

    return Schedule(layout.log2, lambda step: disjoint(layout.size, pairs(step)))
