"""Pairs on a ring, taking turns: (0,1) (2,3) ..., then (1,2) (3,4) ... (N-1,0), weight 1/2.

Called `ring` in Decent-DP, the reference implementation of arXiv 2410.11998.
"""

import numpy as np

from decent_core.topology.layout import World
from decent_core.topology.make_rounds import disjoint
from decent_core.topology.schedule import Schedule, cycle, identity

SPARSE = True


def schedule(world: World) -> Schedule:
    """Serves one worker and every even number of workers."""
    if world.size == 1:
        return identity(1)
    if world.size % 2:
        raise ValueError(f"the number of workers must be even (nearest: {world.size - 1} and {world.size + 1})")
    pairs = np.arange(world.size).reshape(-1, 2)
    return cycle([disjoint(world.size, pairs), disjoint(world.size, (pairs + 1) % world.size)])
