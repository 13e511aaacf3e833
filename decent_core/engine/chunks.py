"""One flat row of parameters on its way through a round, cut into pieces.

A row travels from its end to its start, the order in which a backward pass completes the gradients.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from torch import Tensor

FAILED = -1
NOT_THERE = "the step before, whose result was to be exchanged, has failed"


class ReadyPrefix:
    """How many elements of a row, from its end, are final: an exchange may send them while the rest is computed."""

    def __init__(self) -> None:
        self._queue, self._ready = SimpleQueue[int](), 0
        self.listener: Callable[[int], None] = (
            self._queue.put
        )  # called with the number of final elements, in the thread that computes

    def mark_ready(self, elements: int) -> None:
        """The last `elements` are final: they do not change until the exchange has been waited for."""
        self.listener(elements)

    def fail(self) -> None:
        """The step that computes the row has failed: the exchange ends with an error."""
        self._queue.put(FAILED)

    def wait_for(self, elements: int) -> None:
        """Return when that many are final, however long this process computes; raises RuntimeError after `fail`."""
        while self._ready < elements:
            allowed = self._queue.get()
            if allowed == FAILED:
                raise RuntimeError(NOT_THERE)
            self._ready = allowed


@dataclass
class Transfer:
    """What is exchanged: `row` [D] is sent and mixed into `result` [D], both from end to start."""

    row: Tensor
    result: Tensor
    what: str  # for messages
    prefix: ReadyPrefix | None = None  # None: the whole row is final
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
            if self.prefix is not None:
                self.prefix.wait_for(end)
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
        self.known = 0  # elements that are mixed, as of the last call of `completed`

    def wait(self) -> Tensor:
        if self.future is not None:
            self.future.result()
        self.finish()
        self.known = self.mixed.shape[1]
        return self.mixed

    def completed(self, least: int) -> int:
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
