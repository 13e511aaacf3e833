"""Gradient tracking."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from decent_core.methods.base import Method, Pending, Workers, state


@dataclass
class GradientTracking(Method):
    """Each worker follows an estimate y_i of the global gradient (Nedic, Olshevsky, Shi, SIAM J. Optim. 2017, DIGing).

    y_i = g_i at first;   x_i+ = sum_j w_ij x_j - lr y_i;   y_i+ = sum_j w_ij y_j + g_i(x_i+) - g_i(x_i)

    mean_i y_i = mean_i g_i in every step. The optimizer takes y for its gradient.
    """

    name = "gradient_tracking"
    optimizers = ("sgd", "adam", "adamw", "accum_adam", "accum_adamw")
    because = "a trust ratio over y, which is no gradient of the worker's own loss, is not defined"

    s: Tensor = state()  # sum_j w_ij y_j - g_i of the step before: what the next gradient is added to
    _mixing: Pending | None = field(default=None, init=False, repr=False)

    def start(self, workers: Workers) -> None:
        self.s = torch.zeros_like(workers.x)

    def begin_step(self, workers: Workers) -> None:
        self._mixing = workers.start_mix(workers.x)

    def end_step(self, workers: Workers) -> None:
        assert self._mixing is not None, "end_step without begin_step"
        g = workers.gradients()
        y = self.s.add_(g)
        workers.x.copy_(self._mixing.wait())
        self._mixing = None
        workers.step_along(y)
        self.s.copy_(workers.mix(y)).sub_(g)
