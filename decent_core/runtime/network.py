"""Links described by their bandwidth and latency: how long the exchanges of a round take over them."""

from dataclasses import dataclass

import numpy as np

from decent_core.runtime.costs import crosses_nodes, edges
from decent_core.topology import GroupRound, PeerRound, Round
from decent_core.topology.rounds import Floats, Ints


@dataclass(frozen=True)
class Network:
    """Messages of `message_bytes` over one full-duplex link a node and faster links inside; a `Cost`.

    Bandwidths in bytes/s, latencies and durations in s. Workers of a node that send to other nodes at the same time
    share its link. A group of three or more is a ring in worker order or a tree, whichever is faster: m workers send
    2(m-1)/m of a message in 2(m-1) steps, or two messages in 2 ceil(log2 m) steps. A pair swaps messages in one step.
    """

    message_bytes: float
    link_bandwidth: float
    latency: float
    local_bandwidth: float
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
                inside = vectors * self.message_bytes / self.local_bandwidth
                across = load[nodes].max(axis=1) * self.message_bytes / self.link_bandwidth
                slower = np.maximum(across + steps * self.latency, inside)
                durations.append(np.where(crosses, slower, inside + steps * self.local_latency))
        return tuple(np.minimum(a, b) for a, b in zip(ring, tree, strict=True))

    def _peers(self, round_: PeerRound, node_of: Ints) -> Floats:
        n = round_.world_size
        senders, receivers = edges(round_)
        remote = node_of[senders] != node_of[receivers]
        crosses = crosses_nodes(n, senders, receivers, node_of)
        load = np.maximum(
            *(np.bincount(node_of[ends[remote]], minlength=node_of.max() + 1) for ends in (senders, receivers))
        )
        busiest = load[node_of]
        np.maximum.at(busiest, receivers[remote], load[node_of[senders[remote]]])
        np.maximum.at(busiest, senders[remote], load[node_of[receivers[remote]]])
        degree = np.maximum(*(np.bincount(ends, minlength=n) for ends in (senders, receivers)))
        inside = degree * self.message_bytes / self.local_bandwidth
        across = np.maximum(busiest * self.message_bytes / self.link_bandwidth + self.latency, inside)
        return np.where(crosses, across, inside + self.local_latency * (degree > 0))


def _ring_flows(groups: Ints, node_of: Ints) -> Floats:
    """How many workers of each node send to another node, each to the next of its group, [nodes]."""
    here, there = node_of[groups], node_of[np.roll(groups, -1, axis=1)]
    return np.bincount(here[here != there], minlength=node_of.max() + 1).astype(float)


def _ring(size: int) -> tuple[float, int]:
    """Messages that a worker sends, and steps one after the other."""
    return (float(size - 1), size - 1) if size <= 2 else (2 * (size - 1) / size, 2 * (size - 1))


def _tree(size: int) -> tuple[float, int]:
    return _ring(size) if size <= 2 else (2.0, 2 * (size - 1).bit_length())
