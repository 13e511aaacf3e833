"""The engine's exchanges: started in their step or ahead of it, counted and timed."""

import numpy as np
from torch import Tensor

from decent_core.engine.chunks import ReadyPrefix
from decent_core.engine.communicator import Communicator
from decent_core.engine.timing import DeviceClock, Mark
from decent_core.methods import Pending
from decent_core.topology import Topology


class Exchanges:
    """Sends rows through the rounds of `topology`, and notes what that costs a step."""

    def __init__(self, communicator: Communicator, topology: Topology, clock: DeviceClock):
        self.communicator, self.topology, self.clock = communicator, topology, clock
        self.ahead: tuple[int, Tensor, Pending] | None = None  # round, rows and exchange of the step to come
        self.waits: list[tuple[Mark, Mark]] = []  # since begin_step: when the computation stood still for an exchange
        self.bytes_sent = 0.0  # since begin_step: mean over the workers of what each sends

    def begin_step(self) -> None:
        """Count and time from here on."""
        self.waits, self.bytes_sent = [], 0.0

    def start(self, rows: Tensor, number: int, what: str) -> Pending:
        """Start to send rows [L, any] through round `number`, unless just that is under way already."""
        round_ = self.topology.round(number)
        self.bytes_sent += float(np.mean(round_.bytes_sent(_row_bytes(rows))))
        if self.ahead is not None:
            (ahead_number, ahead_rows, pending), self.ahead = self.ahead, None
            assert ahead_number == number, "another round comes first than the one that runs ahead"
            assert ahead_rows is rows, "other rows come first than those that run ahead"
        else:
            pending = self.communicator.start_mix(rows, round_, what)
        return _Timed(self, pending)

    def start_ahead(self, rows: Tensor, number: int, what: str) -> ReadyPrefix:
        """Start to send rows [L, D] through round `number` while they are made; nothing may come before `start`."""
        prefix = ReadyPrefix()
        self.ahead = number, rows, self.communicator.start_mix(rows, self.topology.round(number), what, prefix)
        return prefix

    def mean(self, rows: Tensor, what: str) -> Tensor:
        """The mean over all workers [D] of rows [L, D]."""
        self.count_mean(rows)
        start = self.clock.mark()
        mean = self.communicator.mean(rows, what)
        self.waits.append((start, self.clock.mark()))
        return mean

    def count_mean(self, rows: Tensor) -> None:
        """Count a mean of rows [L, D], as a ring all-reduce."""
        self.bytes_sent += 2 * (self.communicator.size - 1) / self.communicator.size * _row_bytes(rows)


class _Timed:
    """Notes for how long the caller waits."""

    def __init__(self, exchanges: Exchanges, pending: Pending):
        self.exchanges, self.pending = exchanges, pending

    def wait(self) -> Tensor:
        start = self.exchanges.clock.mark()
        rows = self.pending.wait()
        self.exchanges.waits.append((start, self.exchanges.clock.mark()))
        return rows

    def completed(self, least: int) -> int:
        if (found := self.pending.completed(0)) >= least:
            return found
        start = self.exchanges.clock.mark()
        found = self.pending.completed(least)
        self.exchanges.waits.append((start, self.exchanges.clock.mark()))
        return found

    @property
    def mixed(self) -> Tensor:
        return self.pending.mixed


def _row_bytes(rows: Tensor) -> int:
    return rows.shape[1] * rows.element_size()
