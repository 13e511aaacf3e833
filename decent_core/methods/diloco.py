"""DiLoCo."""

from dataclasses import dataclass

import torch
from torch import Tensor

from decent_core.methods.base import Method, Workers, check_option, state


@dataclass
class DiLoCo(Method):
    """An outer optimizer over the mean of what H local steps have moved (Douillard et al., arXiv 2311.08105, alg. 1).

    D = x0 - mean_j x_j;   u <- mu u + D;   x0 <- x0 - lr_outer (D + mu u)  (Nesterov);   x_i <- x0
    """

    name = "diloco"
    uses_topology = False
    tied_to_x = True

    every: int = 50  # H, steps
    outer_lr: float = 0.7
    outer_momentum: float = 0.9  # mu
    x0: Tensor = state()  # [D], the same for all workers
    u: Tensor = state()  # [D]

    def __post_init__(self) -> None:
        check_option(self, "every", self.every >= 1, "at least 1 step")
        check_option(self, "outer_lr", self.outer_lr > 0, "a rate > 0")
        check_option(self, "outer_momentum", 0 <= self.outer_momentum < 1, "a number with 0 <= outer_momentum < 1")

    def start(self, workers: Workers) -> None:
        self.x0 = workers.x[0].clone()
        self.u = torch.zeros_like(self.x0)

    def end_step(self, workers: Workers) -> None:
        workers.apply_optimizers()
        if (workers.step + 1) % self.every == 0:
            moved = self.x0 - workers.mean(workers.x)
            self.u.mul_(self.outer_momentum).add_(moved)
            self.x0.sub_(moved.add_(self.u, alpha=self.outer_momentum), alpha=self.outer_lr)
            workers.x.copy_(self.x0)
