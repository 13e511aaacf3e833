"""What `Gossip` refuses, by name and with the reason, before anything hangs or trains silently wrong."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import LBFGS, Optimizer, SparseAdam

from decent_core.engine.replicas import Replicas

#: wrappers of torch by name, so that torch's sharding code is not imported for the question
SHARDED = ("FullyShardedDataParallel", "FSDPModule")
WITHOUT = "give the plain module, and make Gossip before anything else wraps it"


def check_model(model: nn.Module) -> None:
    """Raises ValueError for a model that something else exchanges or shards already."""
    for module in model.modules():
        if isinstance(module, DistributedDataParallel):
            raise ValueError(f"the model is wrapped in DistributedDataParallel, which averages gradients; {WITHOUT}")
        if sharded := [kind.__name__ for kind in type(module).__mro__ if kind.__name__ in SHARDED]:
            raise ValueError(f"the model is wrapped in {sharded[0]}: each worker must hold a whole model; {WITHOUT}")
    for name, parameter in model.named_parameters():
        if any(kind.__name__ == "DTensor" for kind in (*type(parameter).__mro__, *type(parameter.data).__mro__)):
            raise ValueError(f"parameter {name} is a DTensor: each worker must hold whole tensors; {WITHOUT}")


def check_optimizer(optimizer: Optimizer, model: nn.Module) -> None:
    """Raises ValueError for an optimizer that cannot be stepped once after the exchange."""
    if isinstance(optimizer, LBFGS):
        raise ValueError("LBFGS calls the model several times a step, between which nothing can be exchanged")
    if isinstance(optimizer, SparseAdam):
        raise ValueError("SparseAdam takes sparse gradients; whole rows of parameters are exchanged: give a dense one")
    known = {id(p) for p in model.parameters()}
    strange = sum(id(p) not in known for group in optimizer.param_groups for p in group["params"])
    if strange:
        raise ValueError(f"the optimizer holds {strange} tensors that are no parameters of the model")


def check_links(model: nn.Module, replicas: Replicas) -> None:
    """Raises ValueError, naming the parameter, if the model does not hold its row's memory any more."""
    layout = replicas.layout
    names = {id(p): name for name, p in model.named_parameters() if p.requires_grad}
    expected = {id(p): view for p, view in zip(layout.parameters, replicas.views[0], strict=True)}
    cure = "make Gossip and the optimizer after such changes, or anew"
    if added := [name for key, name in names.items() if key not in expected]:
        raise ValueError(f"parameter {added[0]} was added, unfrozen or replaced since Gossip was made; {cure}")
    if len(names) < len(expected):
        raise ValueError(f"{len(expected) - len(names)} parameters were removed or frozen since then; {cure}")
    for parameter in layout.parameters:
        view = expected[id(parameter)]
        if parameter.data_ptr() != view.data_ptr() or parameter.dtype != view.dtype:
            raise ValueError(
                f"parameter {names[id(parameter)]} has other memory than when Gossip was made "
                f"({view.dtype}, now {parameter.dtype}), as after model.to(), .double() or an assigned .data; {cure}"
            )


class GradientScaling:
    """In the place of the engine's loss scaler: the user's own GradScaler has scaled, and decides by finiteness."""

    def __init__(self) -> None:
        self.active = False

    def is_enabled(self) -> bool:
        return self.active

    def unscale_(self, optimizer: Optimizer) -> None:
        """`Gossip.step` has done it."""

    def step(self, optimizer: Optimizer) -> None:
        """One step, or none if a scaled gradient was not finite."""
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not self.active or all(bool(torch.isfinite(g).all()) for g in gradients):
            optimizer.step()

    def update(self) -> None:
        """The user's scaler updates itself."""

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        """There is none."""
