"""`Gossip`: an optimizer that wraps an optimizer and exchanges the parameters of workers between its steps.

Source of the default method: Wang, Zhang, Wu, Johansson, "From promise to practice" (ICLR 2025, arXiv 2410.11998).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from decent_core import topology as graphs
from decent_core.engine import averaging
from decent_core.engine.communicator import Communicator
from decent_core.engine.distributed import DistributedCommunicator
from decent_core.engine.engine import Engine
from decent_core.engine.settings import DistributedSettings
from decent_core.engine.virtual import VirtualCommunicator
from decent_core.gossip_checks import GradientScaling, check_links, check_model, check_optimizer
from decent_core.methods import METHODS
from decent_core.training.launch import workers_per_node

TIMEOUT_SECONDS, BUCKET_MIB = 300.0, 25.0
KEY = "gossip"  # of a state_dict: what belongs to the exchange


class Gossip(Optimizer):
    """Trains `model` with `optimizer` on every rank, and averages the models with neighbours of `topology`.

    The exchange starts in the first forward pass of a step; `step()` waits for it, mixes, and calls the base optimizer
    once. Gradients, their clipping and accumulation are the caller's; rates are the groups'. Every rank makes it at the
    same time; all start from rank 0's values. Without a process group it is plain training.

    Args:
        model: the plain module, on its device and in its dtype. Its parameters [D elements] get one flat memory.
        optimizer: any torch optimizer over its parameters, but LBFGS and SparseAdam.
        topology: one of `Gossip.topologies()`.  method: one of `Gossip.methods()`.
        process_group: whose ranks are the workers; None: all. Gossip makes groups of its own over the same ranks.
        local_size: workers a node; None: found by host name.
        timeout: seconds after which a missing peer is an `ExchangeError`; None: 300.
        method_options: of the method; and `peak_lr`, the highest rate of the run, for methods that need it.

    Raises:
        ValueError: a name is unknown, parts do not go together, or the model is wrapped or sharded.
    """

    _step_supports_amp_scaling = True  # a GradScaler calls `step` in bad steps too, so that no rank is missed

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        topology: str,
        method: str = "awc",
        *,
        process_group: dist.ProcessGroup | None = None,
        local_size: int | None = None,
        timeout: float | None = None,
        peak_lr: float | None = None,
        **method_options: Any,
    ):
        check_model(model)
        check_optimizer(optimizer, model)
        if method not in METHODS:
            raise ValueError(f"method={method}: there is none of that name; there are {', '.join(METHODS)}")
        try:
            chosen = METHODS[method](**method_options)
        except TypeError as error:
            raise ValueError(f"method={method}: {error}") from None
        if chosen.needs_peak_lr and peak_lr is None:
            raise ValueError(f"method={method} needs the highest learning rate of the whole run: give peak_lr=VALUE")
        device = next(model.parameters()).device
        self.base = optimizer
        self.control: Any = None  # for what only some steps do: never mistaken for an exchange
        world = dist.get_world_size(process_group) if dist.is_available() and dist.is_initialized() else 1
        communicator: Communicator = VirtualCommunicator(1)
        if world == 1:
            graphs.options(topology)
            built = graphs.build("complete", 1)
        else:
            seconds = TIMEOUT_SECONDS if timeout is None else timeout
            settings = DistributedSettings("distributed", seconds, BUCKET_MIB, False)
            ranks, limit = dist.get_process_group_ranks(process_group or dist.group.WORLD), timedelta(seconds=seconds)
            group: Any = dist.new_group(ranks, timeout=limit, use_local_synchronization=True)
            self.control = dist.new_group(ranks, timeout=limit, backend="gloo", use_local_synchronization=True)
            nodes = [local_size] if local_size is not None else workers_per_node(group)
            name = topology if chosen.uses_topology else "complete"
            built = graphs.build(name, world, nodes[0] if len(set(nodes)) == 1 else nodes)
            exchanged = built if chosen.uses_topology else None
            communicator = DistributedCommunicator(settings, exchanged, device, group, in_backward=False)
        self.engine = Engine(model, communicator, chosen, built, lambda _: optimizer, peak_lr=peak_lr)
        self.scaling = GradientScaling()
        self.engine.replicas.scalers = [self.scaling]  # type: ignore[list-item]
        self.begun = self.inside_averaged = False
        super().__setstate__({})  # torch's hooks; groups and state are the base optimizer's
        model.register_forward_pre_hook(self._before_forward)

    param_groups = property(lambda self: self.base.param_groups)
    state = property(lambda self: self.base.state)
    defaults = property(lambda self: self.base.defaults)

    @staticmethod
    def topologies() -> list[str]:
        """The names that `topology` may have."""
        return graphs.names()

    @staticmethod
    def methods() -> list[str]:
        """The names that `method` may have."""
        return list(METHODS)

    @torch.compiler.disable
    def _before_forward(self, module: nn.Module, inputs: Any) -> None:
        if module.training and torch.is_grad_enabled() and not self.inside_averaged:
            self.begin()

    def begin(self) -> None:
        """Start this step's exchange, if it has not begun; the model's forward pass does it by itself.

        Raises ValueError, naming the parameter, if the model's parameters have moved or changed.
        """
        if not self.begun:
            check_links(self.engine.model, self.engine.replicas)
            self.engine.begin_step(clear=False)
            self.begun = True

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Wait for the exchange, mix, and step the base optimizer once; every rank calls it in every step."""
        if closure is not None:
            raise ValueError("step(closure): a closure may run the model several times a step; call backward() before")
        self.begin()
        found, scale = getattr(self, "found_inf", None), getattr(self, "grad_scale", None)
        self.scaling.active = found is not None
        if scale is not None:
            inverse = scale.double().reciprocal().float()
            for parameter in self.engine.replicas.layout.parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(inverse.to(parameter.grad.device))
        self.engine.end_step()
        self.begun = False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The base optimizer's."""
        self.base.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: the parameters that are exchanged are fixed when Gossip is made."""
        raise ValueError("parameters cannot be added: give them to the optimizer, and make Gossip anew")

    @contextmanager
    def averaged(self) -> Iterator[nn.Module]:
        """Inside, the model has the mean of all workers' parameters and floating buffers; every rank enters.

        Afterwards everything is as it was, bit for bit. Raises `ExchangeError` in time if a rank is missing.
        """
        self._together("averaged()")
        replicas = self.engine.replicas
        replicas.module_buffers = list(replicas.model.buffers())
        replicas.buffers = [[b.detach() for b in replicas.module_buffers]]
        self.inside_averaged = True
        try:
            with averaging.averaged(self.engine) as model:
                yield model
        finally:
            self.inside_averaged = False

    def consensus_distance(self) -> float:
        """sqrt(mean_i ||x_i - mean_j x_j||^2) over all workers, in the parameters' units; every rank calls it."""
        self._together("consensus_distance()")
        return averaging.consensus_distance(self.engine)

    def _together(self, call: str) -> None:
        if self.begun:
            raise ValueError(f"{call} between a forward pass of training and step(): call it after step()")
        check_links(self.engine.model, self.engine.replicas)
        if self.control is not None:
            communicator = self.engine.communicator
            with communicator.named(f"{call} must be called by every rank: barrier", range(communicator.size)):
                dist.barrier(group=self.control)

    def state_dict(self) -> dict[str, Any]:
        """The base optimizer's state, the step and the method's state, of this rank: each rank saves its own.

        With the model's own state_dict, loaded after Gossip is made, that resumes exactly.
        """
        own = {"step": self.engine.step, "method": self.engine.method.state_dict()}
        return {**self.base.state_dict(), KEY: own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; raises ValueError for a state that Gossip has not made."""
        if KEY not in state_dict:
            raise ValueError("this state_dict is not Gossip's: load it into the base optimizer before Gossip is made")
        if self.begun:
            raise ValueError("load_state_dict() between a forward pass of training and step(): call it after step()")
        self.base.load_state_dict({name: value for name, value in state_dict.items() if name != KEY})
        own, device = state_dict[KEY], self.engine.x.device
        self.engine.replicas._momentum = None  # loading gives the optimizer tensors of its own
        self.engine.step = own["step"]
        self.engine.method.load_state_dict({n: tensor.to(device, copy=True) for n, tensor in own["method"].items()})
