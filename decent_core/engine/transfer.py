"""One row on its way through a round: how much of it may be sent, how much is mixed, and the wait for the rest."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue

from torch import Tensor

FAILED = -1


class Supply:
    """How much of a row may be sent by now: for an exchange that starts while the row's end is still being made."""

    def __init__(self) -> None:
        self._queue, self._allowed = SimpleQueue[int](), 0

    def allow(self, elements: int) -> None:
        """The first `elements` are there, and stay as they are until the exchange has been waited for."""
        self._queue.put(elements)

    def fail(self) -> None:
        """No more will come: the exchange ends with an error."""
        self._queue.put(FAILED)

    def wait_for(self, elements: int) -> None:
        """Return when that many are there; raises RuntimeError if they will not be."""
        while self._allowed < elements:
            if (allowed := self._queue.get()) == FAILED:
                raise RuntimeError("the step before, whose result was to be exchanged, has failed")
            self._allowed = allowed


@dataclass
class Transfer:
    """What is exchanged: `row` [D] is sent and mixed into `result` [D], both from start to end."""

    row: Tensor
    result: Tensor
    what: str  # for messages
    supply: Supply | None = None  # None: the whole row is there
    #: how many elements are mixed, time after time, or `FAILED`
    progress: "SimpleQueue[int]" = field(default_factory=SimpleQueue)

    def pieces(self, elements: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Pieces of row and result of at most that many elements, each when it may be sent."""
        end = 0
        for own, mixed in zip(self.row.split(elements), self.result.split(elements), strict=True):
            end += own.numel()
            if self.supply is not None:
                self.supply.wait_for(end)
            yield own, mixed

    def carry_out(self, mixing: Iterator[int]) -> None:
        """Run what mixes the row and yields how much is done."""
        try:
            for done in mixing:
                self.progress.put(done)
        except BaseException:
            self.progress.put(FAILED)
            raise


class InFlight:
    """A transfer that a communication thread or stream carries out; the thread's future raises what went wrong."""

    def __init__(self, transfer: Transfer, future: Future | None, finish: Callable[[], None]):
        self.transfer, self.future, self.finish = transfer, future, finish

    def wait(self) -> Tensor:
        if self.future is not None:
            self.future.result()
        self.finish()
        return self.transfer.result[None]

    def parts(self) -> Iterator[Tensor]:
        """The mixed row from its start to its end, [1, some] at a time, each as soon as it is there."""
        start, result = 0, self.transfer.result[None]
        while self.future is not None and start < result.shape[1] and (end := self.transfer.progress.get()) != FAILED:
            yield result[:, start:end]
            start = end
        rest = self.wait()[:, start:]
        if rest.numel():
            yield rest
