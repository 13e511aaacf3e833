"""Pairs on a ring, taking turns: (0,1) (2,3) ..., then (1,2) (3,4) ... (N-1,0), weight 1/2.

Called `ring` in Decent-DP, the reference implementation of arXiv 2410.11998.
"""

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import disjoint
from decent_core.topology.schedule import Schedule, cycle, identity

SPARSE = True


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves one worker and every even number of workers."""
    if layout.size == 1:
        return identity(1)
    if layout.size % 2:
        raise ValueError(f"the number of workers must be even (nearest: {layout.size - 1} and {layout.size + 1})")
    pairs = np.arange(layout.size).reshape(-1, 2)
    return cycle([disjoint(layout.size, pairs), disjoint(layout.size, (pairs + 1) % layout.size)])
