"""DecentLaM, decentralized large-batch momentum SGD."""

from dataclasses import dataclass

from decent_core.methods.base import Method, Workers


@dataclass
class DecentLaM(Method):
    """Momentum over a gradient that has the mixing in it ([L] Yuan et al., ICCV 2021, alg. 2).

    g~_i = (1/lr) x_i - (1/lr) sum_j w_ij (x_j - lr g_j);   m_i <- beta m_i + g~_i;   x_i <- x_i - lr m_i

    In a step of rate 0, g~_i = sum_j w_ij g_j: what the definition tends to where workers agree, as they do at first.
    """

    name = "decentlam"
    optimizers = ("sgd",)
    because = "its momentum runs over the mixing too, and another optimizer would rescale the mixing"

    def end_step(self, workers: Workers) -> None:
        x, lr, g = workers.x, workers.lr, workers.gradients()
        if lr == 0:
            workers.step_along(workers.mix(g))
            return
        p = workers.mix(g.mul_(-lr).add_(x)).neg_().add_(x)  # lr g~
        workers.step_along(p.div_(lr))
