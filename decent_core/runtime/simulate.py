"""The runtime model as a simulation of events, vectorised over workers.

Each worker has one compute stream and one first-in-first-out communication stream, and buckets are handled in the order
of the backward pass. All-Reduce: the forward pass, the backward passes of the buckets; bucket i is reduced when all
workers have its gradient and bucket i - 1 is through; all updates follow the last. Gossip: the forward pass, then for
each bucket its backward pass, and its update as soon as the bucket's previous exchange has ended; the update starts the
next exchange. Nothing else couples workers.

An exchange of a group starts when all members' updates are done and their communication streams are free, and ends for
all of them at once. An exchange with weighted peers ends, for each worker, its own duration after the last of itself,
those it receives from and those it sends to is ready: a message needs both ends, but workers further off don't matter.
"""

from functools import lru_cache

import numpy as np

from decent_core.runtime.closed_forms import Workload
from decent_core.runtime.costs import Cost, edges
from decent_core.runtime.noise import Noise
from decent_core.topology import PeerRound, Topology
from decent_core.topology.rounds import Floats, Ints

WARM_UP = 100
ITERATIONS = 1000
KEPT_ROUNDS = 64


def simulate_allreduce(
    work: Workload, gamma: float, world_size: int, noise: Noise, iterations: int = ITERATIONS, warm_up: int = WARM_UP
) -> float:
    """Mean time of an iteration with All-Reduce, `gamma` for one bucket, over `iterations` after the warm-up."""
    now, start = 0.0, 0.0
    for iteration in range(warm_up + iterations):
        if iteration == warm_up:
            start = now
        forward, backward = noise.factors(iteration, world_size, work.buckets)
        ready = now + forward * (work.forward * work.buckets)
        reduced = 0.0
        for factors in backward:
            ready = ready + factors * work.backward
            reduced = max(reduced, float(ready.max())) + gamma
        now = reduced + work.buckets * work.update
    return (now - start) / iterations


def simulate_gossip(
    work: Workload, topology: Topology, cost: Cost, noise: Noise, iterations: int = ITERATIONS, warm_up: int = WARM_UP
) -> float:
    """Mean time of an iteration with gossip over `iterations` after the warm-up, averaged over the workers."""
    n, node_of = topology.world_size, topology.node_of

    @lru_cache(maxsize=KEPT_ROUNDS)
    def coupling(phase: int) -> "_Groups | _Peers":
        round_ = topology.round(phase)
        durations = cost(round_, node_of)
        return _Peers(round_, *durations) if isinstance(round_, PeerRound) else _Groups(round_.groups, durations)

    now, free = np.zeros(n), np.zeros(n)  # of the compute and of the communication stream
    arrived = np.zeros((work.buckets, n))  # when the last exchange of each bucket ended
    start = 0.0
    for iteration in range(warm_up + iterations):
        if iteration == warm_up:
            start = float(now.mean())
        forward, backward = noise.factors(iteration, n, work.buckets)
        couple = coupling(iteration % topology.period)
        now += forward * (work.forward * work.buckets)
        for factors, mixed in zip(backward, arrived, strict=True):
            now += factors * work.backward
            np.maximum(now, mixed, out=now)
            now += work.update
            np.maximum(free, now, out=free)
            couple.end(free, out=mixed)
            free[:] = mixed
    return (float(now.mean()) - start) / iterations


class _Groups:
    """Ready times of all workers [N] -> when their exchange ends [N], for disjoint groups."""

    def __init__(self, groups: tuple[Ints, ...], durations: tuple[Floats, ...]):
        # numpy reduces along the first axis fastest, unless it is all there is
        self.parts = [
            (np.ascontiguousarray(members.T), duration) for members, duration in zip(groups, durations, strict=True)
        ]

    def end(self, ready: Floats, out: Floats) -> None:
        for members, duration in self.parts:
            out[members] = ready[members].max(axis=0) + duration


class _Peers:
    """The same for exchanges with weighted peers."""

    def __init__(self, round_: PeerRound, duration: Floats):
        n = round_.world_size
        senders, receivers = edges(round_)
        workers = np.concatenate((np.arange(n), senders, receivers))
        others = np.concatenate((np.arange(n), receivers, senders))
        order = np.argsort(workers, kind="stable")
        self.others = others[order]
        self.starts = np.searchsorted(workers[order], np.arange(n))
        self.duration = duration

    def end(self, ready: Floats, out: Floats) -> None:
        np.maximum.reduceat(ready[self.others], self.starts, out=out)
        out += self.duration
