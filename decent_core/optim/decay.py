"""Coupled weight decay, λx added to the gradient, taken out of an optimizer's hands by methods that exchange gradients.

Decoupled decay (AdamW) shrinks x itself and stays with the optimizer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Optimizer


def _coupled(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The parameter groups whose decay is part of the gradient."""
    of_class = getattr(optimizer, "decoupled_weight_decay", False)  # ours; torch's stands in the group
    return [group for group in optimizer.param_groups if not group.get("decoupled_weight_decay", of_class)]


@torch.no_grad()
def add_coupled_decay(optimizer: Optimizer) -> None:
    """g <- g + λx in every gradient that there is; tensors without one do not decay, as in torch."""
    for group in _coupled(optimizer):
        if group["weight_decay"]:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.add_(parameter, alpha=group["weight_decay"])


@contextmanager
def without_coupled_decay(optimizer: Optimizer) -> Iterator[None]:
    """Inside, the optimizer adds no λx: the gradient has it already."""
    groups = _coupled(optimizer)
    before = [group["weight_decay"] for group in groups]
    for group in groups:
        group["weight_decay"] = 0.0
    try:
        yield
    finally:
        for group, weight_decay in zip(groups, before, strict=True):
            group["weight_decay"] = weight_decay
