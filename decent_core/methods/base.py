"""What a method is, and what it sees of the workers.

A method decides what is exchanged and in which order the exchange, the mixing and the local update happen; an engine
decides how. Every tensor that a method handles is `[L, D]`: a row for each local worker (all N in the virtual engine,
one in the distributed engine) of D flat parameters, so the same lines run in both.
"""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

from torch import Tensor

from decent_core.topology import Topology


class Pending(Protocol):
    """An exchange under way."""

    def wait(self) -> Tensor:
        """The mixed rows, [L, D]; raises `ExchangeError` if a peer does not answer in time."""

    @property
    def mixed(self) -> Tensor:
        """Where the mixed rows appear, [L, D], from the last column to the first."""

    def completed(self, least: int) -> int:
        """How many columns, counted from the last, are mixed; waits for `least` of them, and raises as `wait`."""


class Done:
    """An exchange that needs no waiting."""

    def __init__(self, mixed: Tensor):
        self.mixed = mixed

    def wait(self) -> Tensor:
        return self.mixed

    def completed(self, least: int) -> int:
        return self.wait().shape[1]


class Workers(Protocol):
    """The local workers, as a method sees them in one step."""

    @property
    def x(self) -> Tensor:
        """Parameters, [L, D]; writing into it changes the models. Before step 0 all workers' are the same."""

    @property
    def step(self) -> int:
        """Number of this step, from 0."""

    @property
    def lr(self) -> float:
        """Learning rate of this step."""

    @property
    def peak_lr(self) -> float:
        """The highest learning rate of the whole run."""

    @property
    def beta(self) -> float:
        """The momentum factor of the local optimizers, 0 for those without."""

    @property
    def momentum(self) -> Tensor:
        """The momentum m of the local optimizers (`sgd`), [L, D], zero at first; writing into it changes theirs."""

    def start_mix(self, rows: Tensor, number: int | None = None) -> Pending:
        """Start to send `rows` [L, any] through round `number` (None: this step's): row i becomes sum_j w_ij row_j.

        `rows` must stay as they are until the exchange has been waited for. The result may share their memory, and is
        overwritten by the next exchange.
        """

    def mix(self, rows: Tensor, number: int | None = None) -> Tensor:
        """`start_mix` and `wait` in one."""

    def mean(self, rows: Tensor) -> Tensor:
        """The exact mean over all workers, [D], of rows [L, D]."""

    def average_gradients(self) -> None:
        """Replace every worker's gradients by their mean over all workers."""

    def gradients(self) -> Tensor:
        """The local workers' gradients g, [L, D], unscaled and clipped, for a method that goes on with `step_along`.

        Weight decay, unless it is decoupled, is in it: g + decay x. Zero for a tensor without a gradient, and for a
        worker whose loss scaler skips the step. They are handed over once a step.
        """

    def step_along(self, directions: Tensor) -> None:
        """x_i <- x_i - lr d_i, where worker i's optimizer takes row i of [L, D] for its gradient, in every tensor.

        Only decoupled weight decay is applied. The directions stay as they are.
        """

    def apply_optimizers(self) -> None:
        """x_i <- x_i - lr d_i, with worker i's own optimizer, clipping norm and loss scale."""

    def combine_and_adapt(self, mixing: Pending) -> None:
        """x <- the mixed rows, then `apply_optimizers`.

        What has arrived is updated while the rest is on its way; for rows that `begin_step` has sent first, an engine
        may have begun with it in the backward pass.
        """


def state() -> Any:
    """A tensor that a method keeps from step to step, [L, D] or [D]: a field made in `start`, saved in checkpoints."""
    return field(default=None, init=False, repr=False)


@dataclass
class Method:
    """Base of all methods. A subclass is a dataclass: its fields are the options that a configuration may set."""

    name: ClassVar[str]
    #: the optimizers it is defined for, None: any; and why no others, for the message that refuses them
    optimizers: ClassVar[tuple[str, ...] | None] = None
    because: ClassVar[str] = ""
    #: it is defined with Nesterov's momentum too
    takes_nesterov: ClassVar[bool] = True
    #: gradients are averaged over all workers, so that the models stay equal
    averages_gradients: ClassVar[bool] = False
    #: workers meet in the rounds of a topology; otherwise only in means over all of them
    uses_topology: ClassVar[bool] = True
    #: `begin_step` starts to mix x through the step's round, before anything else, and `end_step` is
    #: `combine_and_adapt` with that alone; so an engine may update a parameter as soon as its gradient is there, and
    #: send it at once
    mixes_model_first: ClassVar[bool] = False
    #: it weighs out column-stochastic rounds (`Topology.push`); others need doubly stochastic ones
    takes_push: ClassVar[bool] = False
    #: its rule has the highest learning rate of the whole run in it
    needs_peak_lr: ClassVar[bool] = False
    #: its state belongs to where x is, so that no other method may move x between its steps (as `slowmo` does)
    tied_to_x: ClassVar[bool] = False

    def check_optimizer(self, optimizer: str, nesterov: bool = False) -> None:
        """Raises ValueError, with the reason, if the method has no meaning with this optimizer."""
        if nesterov and not self.takes_nesterov:
            raise ValueError(
                f"optimizer.nesterov=true: method={self.name} is defined with heavy-ball momentum, give "
                f"optimizer.nesterov=false: {self.because}"
            )
        if self.optimizers is not None and optimizer not in self.optimizers:
            raise ValueError(
                f"optimizer={optimizer}: method={self.name} goes with {', '.join(self.optimizers)} only: {self.because}"
            )

    def check_topology(self, topology: Topology, beta: float) -> None:
        """Raises ValueError, with the reason, if the method can't work over this topology.

        `beta` is the optimizer's momentum, 0 for one without.
        """
        if topology.push and not self.takes_push:
            raise ValueError(
                f"topology={topology.name}: its rounds are only column-stochastic, and method={self.name} averages "
                "with doubly stochastic ones; method=sgp weighs such rounds out"
            )

    def start(self, workers: Workers) -> None:
        """Runs before step 0: makes the state."""

    def begin_step(self, workers: Workers) -> None:
        """Runs before the forward pass: exchanges that depend on the models alone start here."""

    def end_step(self, workers: Workers) -> None:
        """Runs after the backward pass, with all local workers' gradients there."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Tensor]:
        """What must survive a checkpoint between two steps: the tensors that the method keeps."""
        kept = {entry.name: getattr(self, entry.name) for entry in fields(self) if not entry.init}
        return {name: value for name, value in kept.items() if isinstance(value, Tensor)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over what `state_dict` gave."""
        unknown = state.keys() - {entry.name for entry in fields(self) if not entry.init}
        assert not unknown, f"{self.name} does not keep {sorted(unknown)}"
        for name, value in state.items():
            setattr(self, name, value)


def check_option(method: Method, name: str, holds: bool, needed: str) -> None:
    """Raises ValueError if option `name` of a method does not hold what is needed."""
    if not holds:
        raise ValueError(f"method.{name}={getattr(method, name)}: method={method.name} needs {needed}")
