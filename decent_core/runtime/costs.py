"""How long the exchanges of one round take for one message (a bucket, or all parameters) of each worker."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from decent_core.topology import GroupRound, PeerRound, Round
from decent_core.topology.rounds import Floats, Ints

#: (round, node of each worker [N]) -> durations: for a `GroupRound` one array [groups] for each array of
#: `round.groups`, for a `PeerRound` one array [N]
Cost = Callable[[Round, Ints], tuple[Floats, ...]]
Kind = Literal["group", "peers"]


def constant(duration: float) -> Cost:
    """Every worker's exchange takes the same, whoever takes part: the assumption of [P]."""

    def cost(round_: Round, node_of: Ints) -> tuple[Floats, ...]:
        if isinstance(round_, GroupRound):
            return tuple(np.full(len(groups), duration) for groups in round_.groups)
        return (np.full(round_.world_size, duration),)

    return cost


def per_group(duration: Callable[[Kind, int, bool], float]) -> Cost:
    """By kind, size and whether nodes are crossed; a worker alone takes no time.

    The size of a `group` is its number of members; of `peers`, the most that a worker sends or receives.
    """

    def cost(round_: Round, node_of: Ints) -> tuple[Floats, ...]:
        if isinstance(round_, GroupRound):
            return tuple(_by_crossing(duration, groups, node_of) for groups in round_.groups)
        senders, receivers = edges(round_)
        degree = np.maximum(*(np.bincount(ends, minlength=round_.world_size) for ends in (senders, receivers)))
        crosses = crosses_nodes(round_.world_size, senders, receivers, node_of)
        found = {
            key: duration("peers", *key) if key[0] else 0.0
            for key in set(zip(degree.tolist(), crosses.tolist(), strict=True))
        }
        return (np.array([found[key] for key in zip(degree.tolist(), crosses.tolist(), strict=True)]),)

    return cost


def edges(round_: PeerRound) -> tuple[Ints, Ints]:
    """Senders and receivers of all messages of the round, both [messages]."""
    receivers, column = np.nonzero(round_.weights[:, 1:])
    return round_.sources[receivers, column + 1], receivers


def crosses_nodes(n: int, senders: Ints, receivers: Ints, node_of: Ints) -> np.ndarray:
    """Whether each worker sends to or receives from another node, bool [N]."""
    remote = node_of[senders] != node_of[receivers]
    crosses = np.zeros(n, dtype=bool)
    crosses[senders[remote]] = crosses[receivers[remote]] = True
    return crosses


def _by_crossing(duration: Callable[[Kind, int, bool], float], groups: Ints, node_of: Ints) -> Floats:
    size = groups.shape[1]
    if size == 1:
        return np.zeros(len(groups))
    nodes = node_of[groups]
    crosses = (nodes != nodes[:, :1]).any(axis=1)
    result = np.empty(len(groups))
    for crossing in np.unique(crosses).tolist():
        result[crosses == crossing] = duration("group", size, crossing)
    return result
