"""D2, decentralized training over decentralized data."""

from dataclasses import dataclass

from torch import Tensor

from decent_core.methods.base import Method, Workers, state
from decent_core.methods.stability import growth, refuse_growth
from decent_core.topology import Topology


@dataclass
class D2(Method):
    """Corrects for what workers' gradients differ in (Tang et al., ICML 2018, alg. 1; "D2-DmSGD" in [L] with momentum).

    x_i <- sum_j w_ij (2 x_j - x_j- - lr d_j + lr- d_j-), each direction with the rate of its step; at first x- = x and
    d- = 0. With y = x - lr d that is x <- W (y + x - y-). It is stable where a symmetric W has no eigenvalue <= -1/3.
    """

    name = "d2"
    optimizers = ("sgd",)
    because = "it needs directions whose mean vanishes only where the mean gradient does"
    tied_to_x = True

    damped: bool = False  # (I + W) / 2 in the place of W
    y: Tensor = state()  # x - lr d of the step before

    def check_topology(self, topology: Topology, beta: float) -> None:
        super().check_topology(topology, beta)
        share = 0.5 if self.damped else 1.0  # of W; the rest is I
        factor = growth(
            topology,
            now=lambda w, same: 2 * (share * w + (1 - share) * same),
            before=lambda w, same: -(share * w + (1 - share) * same),
        )
        cure = "" if self.damped else ", or method.damped=true, which mixes with (I + W) / 2"
        needed = f"one symmetric W whose eigenvalues all lie above -1/3 (topology=grid, star, ring with odd N){cure}"
        refuse_growth(self.name, topology, factor, needed)

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
