"""The gossip engine: one step of training for the local workers, the same for virtual and distributed worlds."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from decent_core.engine.communicator import Communicator
from decent_core.engine.equality import check_equal_structure, derived_seed, hash_of
from decent_core.engine.exchanges import Exchanges
from decent_core.engine.pipelined_update import PipelinedUpdate
from decent_core.engine.replicas import Replicas
from decent_core.engine.timing import DeviceClock, Mark
from decent_core.methods import Method, Pending
from decent_core.optim import name_of, updates_tensors_alone
from decent_core.topology import Topology


class Engine:
    """Trains the local workers of `communicator` by `method` over `topology`; to the method it is the step's `Workers`.

    `model` is moved in place: its parameters become views of flat rows. A step is begin_step, then for each local
    worker `as_worker` with its forward and backward passes, then end_step. Counters and topology phase advance once a
    step for every worker, whatever its gradients are. Learning rates are the optimizers': set them before begin_step.

    Args:
        model: the same on all ranks but for its values, which become rank 0's.
        build_optimizer: makes a worker's optimizer over the parameters of the model, which hold a row's memory by then.
        clip_norm: each worker's gradient norm is clipped to this; None: no clipping.
        scaled: losses are scaled (for fp16), and a step with gradients that are not finite is skipped.
        piecewise: parameters may be updated a few at a time, and in the backward pass, where optimizer and method allow
            that. The numbers are the same, but gradients are not all there at once at any time.
        seed: random numbers in a forward pass are a function of it; None: torch's generators are left alone.
        peak_lr: the highest learning rate of the whole run, for methods that need it; None: not known.

    Raises:
        ValueError: ranks hold different models, or the method does not go with the optimizer or the topology.
    """

    def __init__(
        self,
        model: nn.Module,
        communicator: Communicator,
        method: Method,
        topology: Topology,
        build_optimizer: Callable[[nn.Module], Optimizer],
        *,
        clip_norm: float | None = None,
        scaled: bool = False,
        piecewise: bool = False,
        seed: int | None = None,
        peak_lr: float | None = None,
    ):
        self.communicator, self.method, self.clip_norm, self.seed = communicator, method, clip_norm, seed
        self._peak_lr = peak_lr
        check_equal_structure(model, communicator)
        communicator.share_first([*model.parameters(), *model.buffers()], "initial weights")
        self.replicas = Replicas(model, len(communicator.local_workers), build_optimizer, scaled)
        optimizer = self.replicas.optimizers[0]
        method.check_optimizer(name_of(optimizer), optimizer.defaults.get("nesterov", False))
        method.check_topology(topology, self.beta)
        self.model = model
        self.module: nn.Module = communicator.wrap(model) if method.averages_gradients else model
        self.step = 0
        self.clock = DeviceClock(self.x.device)
        self.exchanges = Exchanges(communicator, topology, self.clock)
        self.piecewise = piecewise and updates_tensors_alone(optimizer)
        self.streams = method.mixes_model_first and communicator.takes_ready_prefix  # x is sent as it is made
        self.sent_ahead = False  # the exchange of the next step starts in this one
        self.mixing: Pending | None = None  # of x, since begin_step
        self.pipelined: PipelinedUpdate | None = None
        self._update_in_backward()

    # What a method sees

    @property
    def x(self) -> Tensor:
        return self.replicas.rows

    @property
    def lr(self) -> float:
        rates = {float(group["lr"]) for group in self.replicas.optimizers[0].param_groups}
        if len(rates) > 1:
            raise ValueError(
                f"method={self.method.name} divides by the learning rate, and the groups have different ones "
                f"({', '.join(f'{rate:g}' for rate in sorted(rates))}): give all groups the same, or use another method"
            )
        return rates.pop()

    @property
    def peak_lr(self) -> float:
        if self._peak_lr is None:
            raise ValueError(f"method={self.method.name} needs the highest learning rate of the run: give peak_lr")
        return self._peak_lr

    @property
    def beta(self) -> float:
        return self.replicas.optimizers[0].defaults.get("momentum", 0.0)

    @property
    def momentum(self) -> Tensor:
        return self.replicas.momentum

    def start_mix(self, rows: Tensor, number: int | None = None) -> Pending:
        pending = self.exchanges.start(rows, self.step if number is None else number, self._now)
        if rows is self.x:
            self.mixing = pending
        return pending

    def mix(self, rows: Tensor, number: int | None = None) -> Tensor:
        return self.start_mix(rows, number).wait()

    def mean(self, rows: Tensor) -> Tensor:
        return self.exchanges.mean(rows, self._now)

    def average_gradients(self) -> None:
        self.exchanges.count_mean(self.x)
        self.replicas.stash_gradients()
        self.communicator.average_gradients(self.replicas.gradients, self.replicas.layout.parameters)
        self.replicas.replace_gradients(self.replicas.gradients)

    def gradients(self) -> Tensor:
        return self.replicas.take_gradients(self.clip_norm)

    def step_along(self, directions: Tensor) -> None:
        self.replicas.step_along(directions)

    def apply_optimizers(self) -> None:
        for index in range(self.replicas.count):
            self.replicas.update(index, self.clip_norm)

    def combine_and_adapt(self, mixing: Pending) -> None:
        pipelined = self.pipelined or self._pipelined_update(mixing)
        try:
            pipelined.finish()
        except BaseException:
            pipelined.abandon()
            raise
        self.pipelined = None

    def _pipelined_update(self, mixing: Pending) -> PipelinedUpdate:
        prefix = None
        if self.sent_ahead:
            prefix = self.exchanges.start_ahead(self.x, self.step + 1, f"step {self.step + 1}")
        return PipelinedUpdate(self.replicas, mixing, self.clip_norm, prefix, self.piecewise)

    def _update_in_backward(self) -> None:
        """Where nothing has to be decided for the whole step, update parameters as their gradients come."""
        replicas, whole = self.replicas, self.clip_norm is not None or self.replicas.scalers[0].is_enabled()
        self.updates_in_backward = self.piecewise and self.streams and replicas.count == 1 and not whole
        engine = weakref.ref(self)  # the garbage collector does not see what such a hook holds
        for number, parameter in enumerate(replicas.layout.parameters if self.updates_in_backward else ()):
            parameter.register_post_accumulate_grad_hook(lambda _, number=number: _gradient_ready(engine(), number))

    @property
    def _now(self) -> str:
        return f"step {self.step}"

    # What a training loop calls

    def set_learning_rate(self, lr: float) -> None:
        """Give every parameter group of every local worker this rate, until it is set again."""
        for optimizer in self.replicas.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr

    def begin_step(self, ahead: bool = False, clear: bool = True) -> None:
        """Start step `self.step`: drop old gradients (if `clear`), start the exchanges that need no gradient.

        With `ahead`, nothing but the next step may follow this one: its exchange starts as soon as a part of the model
        is updated, where method and world allow that. The numbers are the same.
        """
        self.sent_ahead = ahead and self.streams
        self.exchanges.begin_step()
        if clear:
            self.replicas.clear_gradients()
        with torch.no_grad():
            if self.step == 0:
                self.method.start(self)
            self.method.begin_step(self)

    @contextmanager
    def as_worker(self, index: int, part: int = 0, last: bool = True) -> Iterator[nn.Module]:
        """The module as local worker `index`, for micro-batch `part`; after the `last` one gradients are exchanged.

        With a seed, random numbers inside are a function of (seed, worker, step, part): workers differ, and a resumed
        run repeats.
        """
        self.replicas.bind(index)
        if self.seed is not None:
            self._seed(derived_seed(self.seed, self.communicator.local_workers[index], self.step, part))
        with ExitStack() as stack:
            if self.method.averages_gradients:
                stack.enter_context(
                    self.communicator.named(f"{self._now}: gradient all-reduce", range(self.communicator.size))
                )
                if not last and isinstance(self.module, DistributedDataParallel):
                    stack.enter_context(self.module.no_sync())
            if last and self.updates_in_backward and self.mixing is not None:
                self.pipelined = self._pipelined_update(self.mixing)
                stack.push(self._abandon)
            yield self.module

    def _seed(self, seed: int) -> None:
        """Seed the generators that the model draws from; `torch.manual_seed` alone would do it on any device.

        But for each accelerator that is not there it queues the call with a traceback: a millisecond, never freed.
        """
        if self.x.device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def _abandon(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None and self.pipelined is not None:
            self.pipelined.abandon()

    def backward(self, index: int, loss: Tensor) -> None:
        """Accumulate the gradients of `loss` under the worker's loss scale."""
        self.replicas.scalers[index].scale(loss).backward()

    def end_step(self) -> None:
        """Finish the exchanges, update every local worker, count the step."""
        with torch.no_grad():
            self.replicas.stash_gradients()
            self.method.end_step(self)
        self.step += 1

    @property
    def waits(self) -> list[tuple[Mark, Mark]]:
        """When the computation stood still for an exchange, since begin_step."""
        return self.exchanges.waits

    @property
    def bytes_sent(self) -> float:
        """Mean over the workers of what each has sent since begin_step."""
        return self.exchanges.bytes_sent

    # Checkpoints and identity

    def state_dict(self) -> dict:
        """This process's part of everything that later steps depend on.

        What runs ahead of the next step follows from it, so it is no part of it.
        """
        return {"step": self.step, "replicas": self.replicas.state_dict(), "method": self.method.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        self.step = state["step"]
        self.replicas.load_state_dict(state["replicas"])
        self.method.load_state_dict({name: tensor.to(self.x.device) for name, tensor in state["method"].items()})

    def parameter_hashes(self) -> list[str]:
        """sha256 of every worker's parameters, all workers in order: equal hashes are equal bits."""
        return self.communicator.gather([hash_of(row) for row in self.x], "parameter hashes")


def _gradient_ready(engine: Engine | None, number: int) -> None:
    if engine is not None and engine.pipelined is not None:
        with torch.no_grad():
            engine.pipelined.gradient_ready(number)
