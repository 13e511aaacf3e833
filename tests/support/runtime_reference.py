"""The runtime model's recurrences for single workers and buckets, written like the rules; slow."""

import numpy as np

from decent_core.topology import PeerRound


def partners(round_, worker):
    """Everyone whose readiness a worker's exchange waits for, itself among them."""
    if isinstance(round_, PeerRound):
        weights = round_.matrix()
        return [j for j in range(len(weights)) if weights[worker, j] or weights[j, worker]]
    return next(row for groups in round_.groups for row in groups.tolist() if worker in row)


def gossip(work, topology, exchange, noise, iterations):
    """When each worker has finished each iteration, [iterations, N]; every exchange takes `exchange`."""
    n, b = topology.world_size, work.buckets
    t, free, arrived = [0.0] * n, [0.0] * n, [[0.0] * b for _ in range(n)]
    ends = []
    for iteration in range(iterations):
        forward, backward = noise.factors(iteration, n, b)
        round_ = topology.round(iteration)
        for w in range(n):
            t[w] += forward[w] * work.forward * b
        for i in range(b):
            for w in range(n):
                t[w] = max(t[w] + backward[i][w] * work.backward, arrived[w][i]) + work.update
            end = [max(max(t[j], free[j]) for j in partners(round_, w)) + exchange for w in range(n)]
            for w in range(n):
                free[w] = arrived[w][i] = end[w]
        ends.append(list(t))
    return np.array(ends)


def allreduce(work, gamma, n, noise, iterations):
    """When each iteration ends, [iterations]."""
    t, ends = 0.0, []
    for iteration in range(iterations):
        forward, backward = noise.factors(iteration, n, work.buckets)
        done = [t + forward[w] * work.forward * work.buckets for w in range(n)]
        reduced = 0.0
        for i in range(work.buckets):
            done = [done[w] + backward[i][w] * work.backward for w in range(n)]
            reduced = max(reduced, *done) + gamma
        t = reduced + work.buckets * work.update
        ends.append(t)
    return np.array(ends)
