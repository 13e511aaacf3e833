"""DA, doubly averaged momentum."""

from dataclasses import dataclass

from decent_core.methods.base import Method, Workers


@dataclass
class DoublyAveraged(Method):
    """The momentum is mixed as well as the parameters (Yu, Jin, Yang, ICML 2019, alg. 3; "DA-DmSGD" in [L]).

    u_i = beta m_i + g_i;   x_i <- sum_j w_ij (x_j - lr u_j);   m_i <- sum_j w_ij u_j

    With Nesterov's momentum x moves along g_j + beta u_j.
    """

    name = "da"
    optimizers = ("sgd",)
    because = "it mixes the momentum of SGD"

    def end_step(self, workers: Workers) -> None:
        x, m = workers.x, workers.momentum
        workers.apply_optimizers()  # m is u
        x.copy_(workers.mix(x))
        m.copy_(workers.mix(m))
