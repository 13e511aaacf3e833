"""How long the exchanges of one round take for one message (a bucket, or all parameters) of each worker."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from decent_core.topology import GroupPlan, GroupRound, PeerRound, Round
from decent_core.topology.rounds import Floats, Ints

#: (round, node of each worker [N]) -> durations: for a `GroupRound` one array [groups] for each array of
#: `round.groups`, for a `PeerRound` one array [N]
Cost = Callable[[Round, Ints], tuple[Floats, ...]]
Kind = Literal["group", "peers"]
#: kind, size (as for `per_group`), whether nodes are crossed, and messages on the busiest link
Key = tuple[Kind, int, bool, float]


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
        crosses = _touched(round_.world_size, senders, receivers, node_of)
        found = {
            key: duration("peers", *key) if key[0] else 0.0
            for key in set(zip(degree.tolist(), crosses.tolist(), strict=True))
        }
        return (np.array([found[key] for key in zip(degree.tolist(), crosses.tolist(), strict=True)]),)

    return cost


@dataclass(frozen=True)
class Network:
    """Messages of `message_bytes` over one full-duplex link a node and faster links inside; a `Cost`.

    Rates in bytes/s, latencies and durations in s. Workers of a node that send to other nodes at the same time share
    its link. A group of three or more is a ring in worker order or a tree, whichever is faster: m workers send 2(m-1)/m
    of a message in 2(m-1) steps, or two messages in 2 ceil(log2 m) steps. A pair swaps messages in one step.
    """

    message_bytes: float
    link_rate: float
    latency: float
    local_rate: float
    local_latency: float

    def __call__(self, round_: Round, node_of: Ints) -> tuple[Floats, ...]:
        return self._groups(round_, node_of) if isinstance(round_, GroupRound) else (self._peers(round_, node_of),)

    def _groups(self, round_: GroupRound, node_of: Ints) -> tuple[Floats, ...]:
        flows = [_ring_flows(groups, node_of) for groups in round_.groups]
        ring: list[Floats] = []
        tree: list[Floats] = []
        for durations, algorithm in ((ring, _ring), (tree, _tree)):
            load = np.zeros(node_of.max() + 1)
            for groups, flow in zip(round_.groups, flows, strict=True):
                load += flow * algorithm(groups.shape[1])[0]
            for groups in round_.groups:
                vectors, steps = algorithm(groups.shape[1])
                nodes = node_of[groups]
                crosses = (nodes != nodes[:, :1]).any(axis=1)
                inside = vectors * self.message_bytes / self.local_rate
                across = load[nodes].max(axis=1) * self.message_bytes / self.link_rate
                slower = np.maximum(across + steps * self.latency, inside)
                durations.append(np.where(crosses, slower, inside + steps * self.local_latency))
        return tuple(np.minimum(a, b) for a, b in zip(ring, tree, strict=True))

    def _peers(self, round_: PeerRound, node_of: Ints) -> Floats:
        n = round_.world_size
        senders, receivers = edges(round_)
        remote = node_of[senders] != node_of[receivers]
        crosses = _touched(n, senders, receivers, node_of)
        load = np.maximum(
            *(np.bincount(node_of[ends[remote]], minlength=node_of.max() + 1) for ends in (senders, receivers))
        )
        busiest = load[node_of]
        np.maximum.at(busiest, receivers[remote], load[node_of[senders[remote]]])
        np.maximum.at(busiest, senders[remote], load[node_of[receivers[remote]]])
        degree = np.maximum(*(np.bincount(ends, minlength=n) for ends in (senders, receivers)))
        inside = degree * self.message_bytes / self.local_rate
        across = np.maximum(busiest * self.message_bytes / self.link_rate + self.latency, inside)
        return np.where(crosses, across, inside + self.local_latency * (degree > 0))


def edges(round_: PeerRound) -> tuple[Ints, Ints]:
    """Senders and receivers of all messages of the round, both [messages]."""
    receivers, column = np.nonzero(round_.weights[:, 1:])
    return round_.sources[receivers, column + 1], receivers


#: counts the messages that a link carries: one is one unit, and a link carries one a second
COUNTER = Network(1.0, 1.0, 0.0, float("inf"), 0.0)


def exchange_keys(round_: Round, node_of: Ints) -> list[Key | None]:
    """What each worker's exchange looks like from outside, worker by worker; None for a worker alone.

    Two exchanges of equal kind and size still differ in how many messages the busiest of their nodes' links carries.
    """
    load = np.zeros(round_.world_size)
    parts = round_.groups if isinstance(round_, GroupRound) else (np.arange(round_.world_size)[:, None],)
    for members, own in zip(parts, COUNTER(round_, node_of), strict=True):
        load[members] = own[:, None]
    return [_key(round_, node_of, worker, round(float(load[worker]), 3)) for worker in range(round_.world_size)]


def from_table(durations: Mapping[Key, float]) -> Cost:
    """Durations by `exchange_keys`; a worker alone takes no time."""

    def cost(round_: Round, node_of: Ints) -> tuple[Floats, ...]:
        found = np.array([0.0 if key is None else durations[key] for key in exchange_keys(round_, node_of)])
        if isinstance(round_, GroupRound):
            return tuple(found[groups[:, 0]] for groups in round_.groups)
        return (found,)

    return cost


def _key(round_: Round, node_of: Ints, worker: int, load: float) -> Key | None:
    plan = round_.plan(worker)
    if isinstance(plan, GroupPlan):
        nodes = node_of[list(plan.members)]
        return ("group", len(nodes), bool((nodes != nodes[0]).any()), load) if len(nodes) > 1 else None
    receives = [peer for peer, _ in plan.receives]
    others = node_of[[worker, *plan.sends, *receives]]
    size = max(len(plan.sends), len(receives))
    return ("peers", size, bool((others != others[0]).any()), load) if size else None


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


def _touched(n: int, senders: Ints, receivers: Ints, node_of: Ints) -> np.ndarray:
    """Whether a worker sends to or receives from another node, bool [N]."""
    remote = node_of[senders] != node_of[receivers]
    touched = np.zeros(n, dtype=bool)
    touched[senders[remote]] = touched[receivers[remote]] = True
    return touched


def _ring_flows(groups: Ints, node_of: Ints) -> Floats:
    """How many workers of each node send to another node, each to the next of its group, [nodes]."""
    here, there = node_of[groups], node_of[np.roll(groups, -1, axis=1)]
    return np.bincount(here[here != there], minlength=node_of.max() + 1).astype(float)


def _ring(size: int) -> tuple[float, int]:
    """Messages that a worker sends, and steps one after the other."""
    return (float(size - 1), size - 1) if size <= 2 else (2 * (size - 1) / size, 2 * (size - 1))


def _tree(size: int) -> tuple[float, int]:
    return _ring(size) if size <= 2 else (2.0, 2 * (size - 1).bit_length())
