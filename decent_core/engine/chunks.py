"""One row on its way through a round, from its end to its start, as a backward pass comes by the parameters."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from torch import Tensor

FAILED = -1
NOT_THERE = "the step before, whose result was to be exchanged, has failed"


class Supply:
    """How much of a row may be sent by now: for an exchange that starts while the rest is still being made."""

    def __init__(self) -> None:
        self._queue, self._allowed = SimpleQueue[int](), 0
        self.listener: Callable[[int], None] = self._queue.put  # told how many are there, in the thread that makes them

    def allow(self, elements: int) -> None:
        """The last `elements` are there, and stay as they are until the exchange has been waited for."""
        self.listener(elements)

    def fail(self) -> None:
        """No more will come: the exchange ends with an error."""
        self._queue.put(FAILED)

    def wait_for(self, elements: int) -> None:
        """Return when that many are there, however long this process computes; raises RuntimeError after `fail`."""
        while self._allowed < elements:
            allowed = self._queue.get()
            if allowed == FAILED:
                raise RuntimeError(NOT_THERE)
            self._allowed = allowed


@dataclass
class Transfer:
    """What is exchanged: `row` [D] is sent and mixed into `result` [D], both from end to start."""

    row: Tensor
    result: Tensor
    what: str  # for messages
    supply: Supply | None = None  # None: the whole row is there
    #: how many elements are mixed, time after time, or `FAILED`
    progress: "SimpleQueue[int]" = field(default_factory=SimpleQueue)

    def cut(self, elements: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Row and result in pieces of at most that many elements, the last ones first, each with where it ends."""
        end = 0
        for own, mixed in reversed(list(zip(self.row.split(elements), self.result.split(elements), strict=True))):
            end += own.numel()
            yield end, own, mixed

    def pieces(self, elements: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The same, each piece when it may be sent."""
        for end, own, mixed in self.cut(elements):
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
        self.mixed = transfer.result[None]
        self.known = 0  # elements that have arrived, as far as somebody has asked

    def wait(self) -> Tensor:
        if self.future is not None:
            self.future.result()
        self.finish()
        self.known = self.mixed.shape[1]
        return self.mixed

    def arrived(self, least: int) -> int:
        while self.known < self.mixed.shape[1]:
            if self.future is None:
                return len(self.wait()[0]) if least > 0 else 0
            try:
                done = self.transfer.progress.get(block=self.known < least)
            except Empty:
                break
            if done == FAILED:
                self.wait()
            self.known = done
        return self.known
