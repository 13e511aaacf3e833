"""One round of a topology as pure data, and what follows from it: the matrix, each worker's plan, the bytes sent.

A round is either a set of disjoint groups that average uniformly (`GroupRound`) or anything else (`PeerRound`).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupPlan:
    """What one worker does: average over `members` (itself among them), each with the same `weight`."""

    members: tuple[int, ...]
    weight: float


@dataclass(frozen=True)
class PeerPlan:
    """What one worker does: send x to `sends`, then x <- self_weight * x + the weighted vectors it `receives`."""

    self_weight: float
    receives: tuple[tuple[int, float], ...]
    sends: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class GroupRound:
    """Disjoint groups that cover all workers; a group of m averages with weight 1/m.

    `groups` holds one int array [number of groups, m] for each group size m, sizes ascending; a worker that
    exchanges nothing is a group of one.
    """

    groups: tuple[Ints, ...]

    @cached_property
    def world_size(self) -> int:
        return sum(group.size for group in self.groups)

    @cached_property
    def _place(self) -> tuple[Ints, Ints]:
        """For each worker: which array of `groups` it is in, and in which row."""
        array, row = np.empty((2, self.world_size), dtype=np.int64)
        for index, groups in enumerate(self.groups):
            array[groups] = index
            row[groups] = np.arange(len(groups))[:, None]
        return array, row

    def matrix(self) -> Floats:
        """W, float [N, N]: row i holds the weights with which worker i averages."""
        weights = np.zeros((self.world_size, self.world_size))
        for groups in self.groups:
            weights[groups[:, :, None], groups[:, None, :]] = 1 / groups.shape[1]
        return weights

    def plan(self, rank: int) -> GroupPlan:
        """The part of worker `rank` in this round."""
        array, row = self._place
        members = self.groups[array[rank]][row[rank]]
        return GroupPlan(tuple(members.tolist()), 1 / len(members))

    def bytes_sent(self, parameter_bytes: float) -> Floats:
        """Bytes that each worker sends, float [N]: a pair exchanges its vectors, more workers run a ring all-reduce."""
        sent = np.empty(self.world_size)
        for groups in self.groups:
            m = groups.shape[1]
            sent[groups] = parameter_bytes * (1 if m == 2 else 2 * (m - 1) / m)
        return sent


@dataclass(frozen=True, eq=False)
class PeerRound:
    """Weighted averages over in-neighbours.

    Worker i takes `weights[i, c]` of worker `sources[i, c]`; both are [N, d]. Column 0 is the worker itself; rows with
    fewer neighbours than others are filled with the worker itself and weight 0.
    """

    sources: Ints
    weights: Floats

    @property
    def world_size(self) -> int:
        return len(self.sources)

    @cached_property
    def _receivers(self) -> tuple[Ints, Ints]:
        """Receivers of worker 0, then of worker 1, ...; and where each worker's part starts, [N + 1]."""
        receiver, column = np.nonzero(self.weights[:, 1:])
        sender = self.sources[receiver, column + 1]
        starts = np.concatenate(([0], np.cumsum(np.bincount(sender, minlength=self.world_size))))
        return receiver[np.argsort(sender, kind="stable")], starts

    def matrix(self) -> Floats:
        """W, float [N, N]: row i holds the weights with which worker i averages."""
        weights = np.zeros((self.world_size, self.world_size))
        np.add.at(weights, (np.arange(self.world_size)[:, None], self.sources), self.weights)
        return weights

    def plan(self, rank: int) -> PeerPlan:
        """The part of worker `rank` in this round."""
        sources, weights = self.sources[rank, 1:].tolist(), self.weights[rank, 1:].tolist()
        receives = tuple((source, weight) for source, weight in zip(sources, weights, strict=True) if weight)
        receivers, starts = self._receivers
        sends = receivers[starts[rank] : starts[rank + 1]]
        return PeerPlan(float(self.weights[rank, 0]), receives, tuple(sends.tolist()))

    def bytes_sent(self, parameter_bytes: float) -> Floats:
        """Bytes that each worker sends, float [N]: one vector to each of its receivers."""
        return np.diff(self._receivers[1]) * float(parameter_bytes)


Round = GroupRound | PeerRound
