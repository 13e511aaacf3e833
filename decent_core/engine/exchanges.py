"""The engine's exchanges: started in their step or ahead of it, counted and timed."""

import numpy as np
from torch import Tensor

from decent_core.engine.chunks import Supply
from decent_core.engine.communicator import World
from decent_core.engine.timing import DeviceClock, Mark
from decent_core.methods import Pending
from decent_core.topology import Topology


class Rounds:
    """Sends rows through the rounds of `topology`, and notes what that costs a step."""

    def __init__(self, world: World, topology: Topology, clock: DeviceClock):
        self.world, self.topology, self.clock = world, topology, clock
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
            pending = self.world.start_mix(rows, round_, what)
        return _Timed(self, pending)

    def start_ahead(self, rows: Tensor, number: int, what: str) -> Supply:
        """Start to send rows [L, D] through round `number` while they are made; nothing may come before `start`."""
        supply = Supply()
        self.ahead = number, rows, self.world.start_mix(rows, self.topology.round(number), what, supply)
        return supply

    def mean(self, rows: Tensor, what: str) -> Tensor:
        """The mean over all workers [D] of rows [L, D]."""
        self.count_mean(rows)
        start = self.clock.mark()
        mean = self.world.mean(rows, what)
        self.waits.append((start, self.clock.mark()))
        return mean

    def count_mean(self, rows: Tensor) -> None:
        """Count a mean of rows [L, D], as a ring all-reduce."""
        self.bytes_sent += 2 * (self.world.size - 1) / self.world.size * _row_bytes(rows)


class _Timed:
    """Notes for how long the caller waits."""

    def __init__(self, rounds: Rounds, pending: Pending):
        self.rounds, self.pending = rounds, pending

    def wait(self) -> Tensor:
        start = self.rounds.clock.mark()
        rows = self.pending.wait()
        self.rounds.waits.append((start, self.rounds.clock.mark()))
        return rows

    def arrived(self, least: int) -> int:
        if (found := self.pending.arrived(0)) >= least:
            return found
        start = self.rounds.clock.mark()
        found = self.pending.arrived(least)
        self.rounds.waits.append((start, self.rounds.clock.mark()))
        return found

    @property
    def mixed(self) -> Tensor:
        return self.pending.mixed


def _row_bytes(rows: Tensor) -> int:
    return rows.shape[1] * rows.element_size()
