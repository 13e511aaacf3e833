"""D2, decentralized training over decentralized data."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from decent_core.methods.base import Method, Workers, state
from decent_core.topology import Topology

SETTLES = 1 - 1e-6  # eigenvalues of -1/3 give 1, up to rounding
ROUNDING = 1e-12


@dataclass
class D2(Method):
    """Corrects for what workers' gradients differ in (Tang et al., ICML 2018, alg. 1; "D2-DmSGD" in [L] with momentum).

    x_i <- sum_j w_ij (2 x_j - x_j- - lr d_j + lr- d_j-), each direction with the rate of its step; at first x- = x and
    d- = 0. With y = x - lr d that is x <- W (y + x - y-). It is stable where the eigenvalues of W lie above -1/3.
    """

    name = "d2"
    optimizers = ("sgd",)
    because = "it needs directions whose mean vanishes only where the mean gradient does"
    tied_to_x = True

    damped: bool = False  # (I + W) / 2 in the place of W
    y: Tensor = state()  # x - lr d of the step before

    def check_topology(self, topology: Topology) -> None:
        """Raises ValueError where workers' differences would not shrink if no gradient drove them."""
        super().check_topology(topology)
        growth = disagreement(topology, self.damped)
        if growth >= SETTLES:
            least = min(np.linalg.eigvals(topology.matrix(step)).real.min() for step in range(topology.period))
            cure = "" if self.damped else "; method.damped=true mixes with (I + W) / 2"
            raise ValueError(
                f"topology={topology.name} with {topology.world_size} workers: method=d2 would never settle or blow up, the "
                f"workers' differences grow by a factor of {growth:.3g} a step. It needs a W with eigenvalues above -1/3 "
                f"(here down to {least:.3g}), and one that is symmetric and the same in every round is safest{cure}"
            )

    def start(self, workers: Workers) -> None:
        self.y = workers.x.clone()

    def end_step(self, workers: Workers) -> None:
        x = workers.x
        correction = x - self.y
        workers.apply_optimizers()
        self.y.copy_(x)
        x.add_(correction)
        if self.damped:
            unmixed = correction.copy_(x)
            x.copy_(workers.mix(x)).add_(unmixed).div_(2)
        else:
            x.copy_(workers.mix(x))


def disagreement(topology: Topology, damped: bool) -> float:
    """By what factor a step of x <- W (2 x - x-), without gradients, scales the workers' differences in the long run."""
    n = topology.world_size
    mean = np.full((n, n), 1 / n)
    product, log_size = np.eye(2 * n), 0.0  # rescaled, as many rounds may overflow
    for step in range(topology.period):
        w = topology.matrix(step)
        w = (w + np.eye(n)) / 2 - mean if damped else w - mean
        product = np.block([[2 * w, -w], [np.eye(n) - mean, np.zeros((n, n))]]) @ product
        size = np.linalg.norm(product)
        if size < ROUNDING:
            return 0.0
        product, log_size = product / size, log_size + np.log(size)
    radius = np.abs(np.linalg.eigvals(product)).max()
    return float(np.exp((np.log(radius) + log_size) / topology.period)) if radius > 0 else 0.0
