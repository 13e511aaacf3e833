"""A fresh random matching every round, weight 1/2; with an odd number of workers one sits out.

Round t is drawn from (seed, t mod 1024), so that a schedule has a period: after 1,024 matchings, far more than it takes
to come from anywhere to the mean, the same ones follow again.
"""

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import disjoint
from decent_core.topology.rounds import Round
from decent_core.topology.schedule import Schedule, identity

PERIOD = 1024
SPARSE = True


def schedule(layout: ClusterLayout, seed: int = 0) -> Schedule:
    """Serves any number of workers."""
    if layout.size == 1:
        return identity(1)
    return Schedule(PERIOD, lambda step: _matching(layout.size, seed, step))


def _matching(world_size: int, seed: int, step: int) -> Round:
    order = np.random.default_rng([seed, step]).permutation(world_size)
    return disjoint(world_size, order[: world_size // 2 * 2].reshape(-1, 2))
