"""DecentLaM, decentralized large-batch momentum SGD."""

from dataclasses import dataclass

from decent_core.methods.base import Method, Workers
from decent_core.methods.stability import growth, refuse_growth
from decent_core.topology import Topology


@dataclass
class DecentLaM(Method):
    """Momentum over a gradient that has the mixing in it ([L] Yuan et al., ICCV 2021, alg. 2).

    g~_i = (1/lr) x_i - (1/lr) sum_j w_ij (x_j - lr g_j);   m_i <- beta m_i + g~_i;   x_i <- x_i - lr m_i

    One line: x+ = W (x - lr g) + beta (x - x-). With one symmetric W, as in [L], it is stable; over directed and over
    changing rounds the momentum of the mixing may grow. In a step of rate 0, g~_i = sum_j w_ij g_j: what the definition
    tends to where workers agree, as they do at first.
    """

    name = "decentlam"
    optimizers = ("sgd",)
    because = "its momentum runs over the mixing too, which another optimizer would rescale"
    takes_nesterov = False

    def check_topology(self, topology: Topology, beta: float) -> None:
        super().check_topology(topology, beta)
        factor = growth(topology, now=lambda w, same: w + beta * same, before=lambda w, same: -beta * same)
        needed = "less momentum, or one symmetric W (topology=ring, torus, hypercube, grid, star, complete)"
        refuse_growth(self.name, topology, factor, needed)

    def end_step(self, workers: Workers) -> None:
        x, lr, g = workers.x, workers.lr, workers.gradients()
        if lr == 0:
            workers.step_along(workers.mix(g))
            return
        p = workers.mix(g.mul_(-lr).add_(x)).neg_().add_(x)  # lr g~
        workers.step_along(p.div_(lr))
