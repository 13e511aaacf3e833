"""Whether workers' differences die out under a method whose step looks back at the step before."""

from collections.abc import Callable

import numpy as np

from decent_core.topology import Topology
from decent_core.topology.rounds import Floats

#: a growth from here on does not settle; eigenvalues on the edge give 1, up to rounding
SETTLES = 1 - 1e-6
ROUNDING = 1e-12
Term = Callable[[Floats, Floats], Floats]


def growth(topology: Topology, now: Term, before: Term) -> float:
    """The factor a step of x+ = A x + B x- in the long run, among differences between workers and without gradients.

    A = now(W, I) and B = before(W, I), for W and I with their means taken off, [N, N]. 0 if they vanish in one period.
    """
    n = topology.world_size
    mean = np.full((n, n), 1 / n)
    same = np.eye(n) - mean
    product, log_size = np.eye(2 * n), 0.0  # rescaled, as many rounds may overflow
    for step in range(topology.period):
        w = topology.matrix(step) - mean
        product = np.block([[now(w, same), before(w, same)], [same, np.zeros((n, n))]]) @ product
        size = np.linalg.norm(product)
        if size < ROUNDING:
            return 0.0
        product, log_size = product / size, log_size + np.log(size)
    radius = np.abs(np.linalg.eigvals(product)).max()
    return float(np.exp((np.log(radius) + log_size) / topology.period)) if radius > 0 else 0.0


def refuse_growth(method: str, topology: Topology, factor: float, needed: str) -> None:
    """Raises ValueError where workers' differences grow by `factor` a step, which says what is `needed`."""
    if factor >= SETTLES:
        raise ValueError(
            f"topology={topology.name} with {topology.world_size} workers: method={method} would diverge there: the "
            f"workers' differences grow by a factor of {factor:.3g} a step. It needs {needed}"
        )
