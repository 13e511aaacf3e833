"""LARS, layer-wise adaptive rate scaling: momentum SGD with one learning rate a tensor.

Source: You, Gitman, Ginsburg, "Large batch training of convolutional networks" (arXiv 1708.03888), equation 6 and
algorithm 1. For a tensor x with gradient g, learning rate γ, momentum m, weight decay β and trust coefficient η

    λ = η ‖x‖ / (‖g‖ + β ‖x‖ + ε)          v ← m v + γ λ (g + β x)          x ← x − v

The rate is inside v, as printed. ε guards the quotient, and λ = 1 where x or g is all zeros, so that such a tensor
can leave zero. A group with `adapt: False` (biases, normalisation) has λ = 1.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from decent_core.optim.ranges import check_ranges


def trust_ratio(x: Tensor, g: Tensor, weight_decay: float, trust_coefficient: float, eps: float) -> Tensor:
    """λ as a scalar tensor (kept on the device: reading it would make the host wait)."""
    x_norm, g_norm = torch.linalg.vector_norm(x), torch.linalg.vector_norm(g)
    ratio = trust_coefficient * x_norm / (g_norm + weight_decay * x_norm + eps)
    return torch.where((x_norm > 0) & (g_norm > 0), ratio, 1.0)


class LARS(Optimizer):
    """Momentum SGD whose rate is scaled in every tensor by ‖x‖ / ‖g‖. The rule stands at the top of the module.

    A tensor without a gradient is left alone. State of a tensor: `momentum_buffer` (v).

    Args:
        params: tensors or parameter groups; a group may set any of the options below.
        lr, momentum, weight_decay, trust_coefficient, eps: γ, m, β, η, ε.
        adapt: whether the tensors of the group get their own rate.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: in `step`, a sparse gradient.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float,
        weight_decay: float,
        trust_coefficient: float,
        eps: float,
        adapt: bool = True,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        defaults |= {"trust_coefficient": trust_coefficient, "eps": eps, "adapt": adapt}
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        check_ranges("LARS ", self.defaults | param_group)
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every tensor that has a gradient. Returns what `closure`, if given, returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, p.grad, group)
        return loss

    def _update(self, x: Tensor, g: Tensor, group: dict[str, Any]) -> None:
        if g.is_sparse:
            raise RuntimeError("LARS does not support sparse gradients; dense gradients work")
        if "momentum_buffer" not in self.state[x]:
            self.state[x]["momentum_buffer"] = torch.zeros_like(x, memory_format=torch.preserve_format)
        v = self.state[x]["momentum_buffer"]
        weight_decay = group["weight_decay"]

        direction = g.add(x, alpha=weight_decay)
        if group["adapt"]:
            direction.mul_(trust_ratio(x, g, weight_decay, group["trust_coefficient"], group["eps"]))
        v.mul_(group["momentum"]).add_(direction, alpha=group["lr"])
        x.sub_(v)
