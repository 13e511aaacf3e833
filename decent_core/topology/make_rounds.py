"""How a topology states a round: as disjoint groups, as weighted edges, or as one rule for every worker."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from decent_core.topology.rounds import Floats, GroupRound, Ints, PeerRound, Round


def disjoint(world_size: int, *groups: Ints) -> GroupRound:
    """The groups in the rows of int arrays [number of groups, m] average uniformly; all other workers stay alone."""
    used = np.bincount(
        np.concatenate([np.zeros(0, dtype=np.int64), *(g.ravel() for g in groups)]), minlength=world_size
    )
    assert len(used) == world_size, "a group names a worker that does not exist"
    assert used.max() <= 1, "groups overlap"
    rows = [*groups, np.flatnonzero(used == 0)[:, None]]
    sizes = sorted({g.shape[1] for g in rows if g.size})
    return GroupRound(tuple(_ordered(np.concatenate([g for g in rows if g.shape[1] == m])) for m in sizes))


def peers(
    world_size: int, receivers: Ints, senders: Ints, weights: ArrayLike, self_weights: ArrayLike | None = None
) -> Round:
    """Worker receivers[e] takes weights[e] of worker senders[e]; all are [edges]. Edges named twice add up.

    `self_weights` (one, or [N]) is what each worker keeps of itself; by default what its row lacks to 1.
    Comes out as a `GroupRound` wherever the weights are those of disjoint uniform groups.
    """
    weights = np.broadcast_to(weights, receivers.shape)
    if self_weights is None:
        self_weights = 1 - np.bincount(receivers, weights, world_size)
    workers = np.arange(world_size)
    keys = np.concatenate((receivers * world_size + senders, workers * (world_size + 1)))
    keys, edge = np.unique(keys, return_inverse=True)
    summed = np.bincount(edge, np.concatenate((weights, np.broadcast_to(self_weights, workers.shape))))
    receivers, senders = np.divmod(keys, world_size)
    keep = (summed != 0) | (receivers == senders)
    return _group_round(world_size, receivers[keep], senders[keep], summed[keep]) or _peer_round(
        world_size, receivers[keep], senders[keep], summed[keep]
    )


def circulant(world_size: int, weights: Mapping[int, float]) -> Round:
    """Every worker i takes `weights[u]` of worker i + u (mod N), itself at u = 0; offsets that coincide add up."""
    offsets = [u for u in weights if u]
    workers = np.tile(np.arange(world_size), len(offsets))
    senders = (workers + np.repeat(np.array(offsets, dtype=np.int64), world_size)) % world_size
    return peers(world_size, workers, senders, np.repeat([weights[u] for u in offsets], world_size), weights[0])


def metropolis(world_size: int, links: Ints) -> Round:
    """Undirected links, int [links, 2], with Metropolis weights: w_ij = 1 / (1 + max(degree i, degree j))."""
    degree = np.bincount(links.ravel(), minlength=world_size)
    weights = 1 / (1 + degree[links].max(axis=1, initial=0))
    a, b = links.T
    return peers(world_size, np.concatenate((a, b)), np.concatenate((b, a)), np.concatenate((weights, weights)))


def neighbours(world_size: int, columns: Ints) -> Round:
    """Uniform weights over oneself and the different workers named in the columns, int [N, c]."""
    columns = np.sort(columns, axis=1)
    repeated = np.zeros(columns.shape, dtype=bool)
    repeated[:, 1:] = columns[:, 1:] == columns[:, :-1]
    receivers, column = np.nonzero(~repeated & (columns != np.arange(world_size)[:, None]))
    share = 1 / (1 + np.bincount(receivers, minlength=world_size))
    return peers(world_size, receivers, columns[receivers, column], share[receivers], share)


def _ordered(groups: Ints) -> Ints:
    groups = np.sort(groups, axis=1)
    return groups[np.argsort(groups[:, 0])]


def _group_round(world_size: int, receivers: Ints, senders: Ints, weights: Floats) -> GroupRound | None:
    """The round as groups, or None if it is none; edges are in the order of receivers, then senders."""
    degree = np.bincount(receivers, minlength=world_size)
    first = senders[np.concatenate(([0], np.cumsum(degree)[:-1]))]  # a group is known by its first member
    uniform = np.allclose(weights, 1 / degree[receivers], rtol=0, atol=1e-12)
    closed = np.array_equal(first[senders], first[receivers])
    if not (uniform and closed and np.array_equal(np.bincount(first, minlength=world_size)[first], degree)):
        return None
    by_group = np.argsort(first, kind="stable")
    sizes = degree[by_group]
    return GroupRound(tuple(by_group[sizes == m].reshape(-1, m) for m in np.unique(sizes).tolist()))


def _peer_round(world_size: int, receivers: Ints, senders: Ints, weights: Floats) -> PeerRound:
    degree = np.bincount(receivers, minlength=world_size)
    position = np.arange(len(receivers)) - np.repeat(np.cumsum(degree) - degree, degree)
    column = np.where(receivers == senders, 0, position + (senders < receivers))
    sources = np.repeat(np.arange(world_size)[:, None], degree.max(), axis=1)
    padded = np.zeros(sources.shape)
    sources[receivers, column] = senders
    padded[receivers, column] = weights
    return PeerRound(sources, padded)
