"""Parameter groups by the kind of tensor and module, never by name."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.optim import Optimizer

# Layers whose parameters may have the shape of a matrix and are still scales and shifts, which decay would only turn
# into another learning rate. All other normalisation layers (batch, group, instance) hold vectors.
NORMALISATIONS = (nn.LayerNorm, nn.RMSNorm)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """The trainable parameters of `model`, each once, in at most two groups for a torch optimizer.

    `kind: matrices` holds weight matrices, convolution kernels and embeddings (two or more dimensions) and decays;
    `kind: vectors` holds biases and all that belongs to a normalisation layer, and doesn't. Tied weights count once,
    frozen ones not at all; an empty group is left out.

    Raises:
        ValueError: nothing in the model is trainable.
    """
    of_normalisation = {
        id(p) for module in model.modules() if isinstance(module, NORMALISATIONS) for p in module.parameters()
    }
    kinds: dict[str, list[nn.Parameter]] = {"matrices": [], "vectors": []}
    for p in model.parameters():
        if p.requires_grad:
            kinds["matrices" if p.ndim >= 2 and id(p) not in of_normalisation else "vectors"].append(p)
    decay = {"matrices": weight_decay, "vectors": 0.0}
    groups = [{"kind": k, "params": params, "weight_decay": decay[k]} for k, params in kinds.items() if params]
    if not groups:
        raise ValueError(
            f"{type(model).__name__} has no trainable parameter; at least one with requires_grad is needed"
        )
    assert_groups_cover(groups, model)
    return groups


def assert_groups_cover(groups: list[dict[str, Any]], model: nn.Module) -> None:
    """Proof that the groups hold every trainable parameter of `model` exactly once, and nothing else."""
    listed = Counter(id(p) for group in groups for p in group["params"])
    assert listed == Counter(id(p) for p in model.parameters() if p.requires_grad)


@contextmanager
def only(optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Inside, a step of the optimizer moves these parameters and leaves all others, and their state, alone."""
    chosen = {id(p) for p in parameters}
    before = [group["params"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["params"] = [p for p in group["params"] if id(p) in chosen]
    try:
        yield
    finally:
        for group, whole in zip(optimizer.param_groups, before, strict=True):
            group["params"] = whole
