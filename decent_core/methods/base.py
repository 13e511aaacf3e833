"""What a method is, and what it sees of the workers.

A method decides what is exchanged and in which order the exchange, the mixing and the local update happen; an engine
decides how. Every tensor that a method handles is `[L, D]`: a row for each local worker (all N in the virtual engine,
one in the distributed engine) of D flat parameters, so the same lines run in both.
"""

from typing import ClassVar, Protocol

from torch import Tensor


class Pending(Protocol):
    """An exchange under way."""

    def wait(self) -> Tensor:
        """The mixed rows, [L, D]; raises `ExchangeError` if a peer does not answer in time."""


class Workers(Protocol):
    """The local workers, as a method sees them in one step."""

    #: parameters, [L, D]; writing into it changes the models
    x: Tensor
    #: learning rate of this step
    lr: float

    def start_mix(self, rows: Tensor) -> Pending:
        """Start to send `rows` [L, D] through this step's round: row i becomes sum_j w_ij row_j.

        `rows` must stay as they are until the exchange has been waited for. The result may share their memory.
        """

    def mix(self, rows: Tensor) -> Tensor:
        """`start_mix` and `wait` in one."""

    def average_gradients(self) -> None:
        """Replace every worker's gradients by their mean over all workers."""

    def apply_optimizers(self) -> None:
        """x_i <- x_i - lr d_i, with worker i's own optimizer, clipping norm and loss scale."""


class Method:
    """Base of all methods. A subclass is a dataclass: its fields are the options that a configuration may set."""

    name: ClassVar[str]
    #: the optimizers it is defined for; None: any
    optimizers: ClassVar[tuple[str, ...] | None] = None
    #: gradients are averaged over all workers, so that there is no topology to choose and the models stay equal
    averages_gradients: ClassVar[bool] = False

    #: it weighs out column-stochastic rounds (`Topology.push`); others need doubly stochastic ones
    takes_push: ClassVar[bool] = False

    def begin_step(self, workers: Workers) -> None:
        """Runs before the forward pass: exchanges that depend on the models alone start here."""

    def end_step(self, workers: Workers) -> None:
        """Runs after the backward pass, with all local workers' gradients there."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Tensor]:
        """What must survive a checkpoint between two steps."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over what `state_dict` gave."""
        assert not state, f"{self.name} keeps no state, {sorted(state)} was given"
