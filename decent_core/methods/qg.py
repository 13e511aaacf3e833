"""QG, quasi-global momentum."""

from dataclasses import dataclass

import torch
from torch import Tensor

from decent_core.methods.base import Method, Workers, check_option, state


@dataclass
class QuasiGlobal(Method):
    """Momentum from how far the mixed model has moved (Lin et al., ICML 2021, alg. 1; "QG-DmSGD" in [L]).

    x_i+ = sum_j w_ij (x_j - lr (g_j + beta q_j));   q_i <- mu q_i + (1 - mu) (x_i - x_i+) / lr

    With Nesterov's momentum (the paper's QG-DSGDm-N) x moves along g_j + beta (g_j + beta q_j). A step of rate 0 mixes
    and leaves q alone.
    """

    name = "qg"
    optimizers = ("sgd",)
    because = "it puts its own estimate in the place of SGD's momentum"

    mu: float | None = None  # null: beta, the optimizer's momentum
    q: Tensor = state()

    def __post_init__(self) -> None:
        check_option(self, "mu", self.mu is None or 0 <= self.mu < 1, "null or a number with 0 <= mu < 1")

    def start(self, workers: Workers) -> None:
        self.q = torch.zeros_like(workers.x)

    def end_step(self, workers: Workers) -> None:
        before = workers.x.clone()
        workers.momentum.copy_(self.q)
        workers.apply_optimizers()
        workers.x.copy_(workers.mix(workers.x))
        if workers.lr > 0:
            mu = workers.beta if self.mu is None else self.mu
            self.q.lerp_(before.sub_(workers.x).div_(workers.lr), 1 - mu)
