"""ATC, adapt then combine."""

from dataclasses import dataclass

from decent_core.methods.base import Method, Workers


@dataclass
class AdaptThenCombine(Method):
    """Local step first, then mixing.

    x_i <- sum_j w_ij (x_j - lr d_j(x_j)).  With `sgd` it is DSGD, with momentum DmSGD ([L] Yuan et al., ICCV 2021,
    alg. 1).
    """

    name = "atc"

    def end_step(self, workers: Workers) -> None:
        workers.apply_optimizers()
        workers.x.copy_(workers.mix(workers.x))
