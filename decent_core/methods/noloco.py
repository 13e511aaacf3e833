"""NoLoCo."""

from dataclasses import dataclass

import torch
from torch import Tensor

from decent_core.methods.base import Method, Workers, check_option, state


@dataclass
class NoLoCo(Method):
    """Like `diloco`, but each worker meets one other at a time (Kolehmainen et al., arXiv 2506.10911).

    After every H local steps, with v_ij the weights of the round: D_i = x0_i - x_i;
    u_i <- alpha u_i - beta sum_j v_ij D_j - gamma (x0_i - sum_j v_ij x0_j);   x0_i <- x0_i + u_i;   x_i <- x0_i

    Published with random pairs: topology=random_match.
    """

    name = "noloco"
    tied_to_x = True

    every: int = 50  # H, steps
    outer_momentum: float = 0.5  # alpha
    outer_lr: float = 0.7  # beta
    gamma: float = 0.7
    x0: Tensor = state()
    u: Tensor = state()

    def __post_init__(self) -> None:
        check_option(self, "every", self.every >= 1, "at least 1 step")
        check_option(self, "outer_momentum", 0 <= self.outer_momentum < 1, "a number with 0 <= outer_momentum < 1")
        check_option(self, "outer_lr", self.outer_lr > 0, "a rate > 0")
        check_option(self, "gamma", self.gamma >= 0, "a number >= 0")

    def start(self, workers: Workers) -> None:
        self.x0 = workers.x.clone()
        self.u = torch.zeros_like(workers.x)

    def end_step(self, workers: Workers) -> None:
        workers.apply_optimizers()
        if (workers.step + 1) % self.every == 0:
            self._outer_step(workers, workers.step // self.every)

    def _outer_step(self, workers: Workers, meeting: int) -> None:
        x, x0, u = workers.x, self.x0, self.u
        u.mul_(self.outer_momentum)
        u.sub_(workers.mix(x.neg_().add_(x0), meeting), alpha=self.outer_lr)
        u.sub_(x0, alpha=self.gamma)
        u.add_(workers.mix(x.copy_(x0), meeting), alpha=self.gamma)
        x.copy_(x0.add_(u))
