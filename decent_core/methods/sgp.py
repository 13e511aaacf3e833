"""SGP, stochastic gradient push."""

from dataclasses import dataclass

from torch import Tensor

from decent_core.methods.base import Method, Workers, state


@dataclass
class StochasticGradientPush(Method):
    """Directed rounds whose columns sum to 1, with a weight that undoes their bias (Assran et al., ICML 2019, alg. 1).

    z_i = x_i / w_i, gradients and directions d at z;   x_i <- sum_j p_ij (x_j - lr d_j);   w_i <- sum_j p_ij w_j

    The models hold z. sum_i w_i = N always; over doubly stochastic rounds w stays 1, and the method is `atc`.
    """

    name = "sgp"
    takes_push = True
    tied_to_x = True

    w: Tensor = state()  # [L, 1]

    def start(self, workers: Workers) -> None:
        self.w = workers.x.new_ones(len(workers.x), 1)

    def end_step(self, workers: Workers) -> None:
        rest = workers.x * (self.w - 1)  # x - z
        workers.apply_optimizers()  # z - lr d
        workers.x.add_(rest)  # x - lr d
        workers.x.copy_(workers.mix(workers.x))
        self.w.copy_(workers.mix(self.w))
        workers.x.div_(self.w)
