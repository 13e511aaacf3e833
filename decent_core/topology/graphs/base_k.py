"""Base-(k+1) graph: every worker holds the exact mean after one period, for any N, with at most k peers a round.

Takezawa et al., "Beyond exponential graph: communication-efficient topologies for decentralized learning via
finite-time convergence" (NeurIPS 2023). With k = 1 all exchanges are pairwise.

The building block averages n = n_1 n_2 ... workers, each factor at most k + 1, in one round of groups for each factor.
Any other number is written in base k + 1 as a_1 (k+1)^p_1 + a_2 (k+1)^p_2 + ..., a part of the workers for each digit.
First every part averages inside itself. Then, one after the other, each part trades with all later ones so much that
each of its blocks of (k+1)^p has the mean over all workers as its mean, and averages inside its blocks.
"""

from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import disjoint, peers
from decent_core.topology.rounds import Ints, Round
from decent_core.topology.schedule import Schedule, identity


@dataclass(frozen=True)
class Step:
    """What some workers do in one round: groups [number, m] that average, and pairs (a, b, weight) that trade."""

    groups: list[Ints] = field(default_factory=list)
    trades: list[tuple[Ints, Ints, float]] = field(default_factory=list)


def schedule(layout: ClusterLayout, k: int = 1) -> Schedule:
    """Serves any number of workers. The period is at most 2 log_{k+1}(N) + 2."""
    if k < 1:
        raise ValueError(f"k, the number of peers a round, must be at least 1, got {k}")
    steps = _shortest(np.arange(layout.size), k + 1)
    return Schedule(len(steps), lambda step: _round(layout.size, steps[step])) if steps else identity(layout.size)


def _shortest(workers: Ints, base: int) -> list[Step]:
    """The mean over all workers: by digits, or over p sets of q by digits and then across the sets, p q = N."""
    q = _rough_part(len(workers), base)
    sets = workers.reshape(-1, q)
    by_sets = _by_digits(sets, base) + _by_factors(sets.T, base)
    return min(_by_digits(workers[None], base), by_sets, key=len)


def _by_digits(sets: Ints, base: int) -> list[Step]:
    """The mean inside each row of `sets`, int [number, n], all rows at the same time."""
    n = sets.shape[1]
    if _rough_part(n, base) == 1:
        return _by_factors(sets, base)
    blocks = _digits(n, base)
    parts = np.split(sets, np.cumsum([count * size for count, size in blocks])[:-1], axis=1)
    inside = _at_once(*(_by_factors(part, base) for part in parts))
    later = []
    for index, (count, size) in enumerate(blocks[:-1]):
        rest = np.concatenate(parts[index + 1 :], axis=1)
        own = parts[index].reshape(-1, count, size)
        # each of the rest (fewer than a block) trades with one worker of every block, by the block's share of them all
        weight = size / (count * size + rest.shape[1])
        trade = (own[:, :, : rest.shape[1]], np.repeat(rest[:, None], count, axis=1), weight)
        later.append([Step()] * index + [Step(trades=[trade]), *_by_factors(own.reshape(-1, size), base)])
    return inside + _at_once(*later)


def _by_factors(sets: Ints, base: int) -> list[Step]:
    """The mean inside each row of `sets`, whose length has no prime factor above `base`."""
    factors = _factors(sets.shape[1], base)
    steps = []
    stride = 1
    for factor in factors:
        split = sets.reshape(len(sets), -1, factor, stride)
        steps.append(Step(groups=[split.swapaxes(2, 3).reshape(-1, factor)]))
        stride *= factor
    return steps


def _at_once(*parallel: list[Step]) -> list[Step]:
    """Lists of steps of different workers, side by side; who is finished does nothing."""
    merged = []
    for steps in zip_longest(*parallel, fillvalue=Step()):
        merged.append(Step([g for s in steps for g in s.groups], [t for s in steps for t in s.trades]))
    return merged


def _round(world_size: int, step: Step) -> Round:
    if not step.trades:
        return disjoint(world_size, *step.groups)
    ends = [(a.ravel(), b.ravel(), np.full(a.size, weight)) for a, b, weight in step.trades]
    for group in step.groups:
        m = group.shape[1]
        a, b = np.repeat(group, m, axis=1).ravel(), np.tile(group, (1, m)).ravel()
        ends.append((a[a < b], b[a < b], np.full((a < b).sum(), 1 / m)))
    a, b, weight = (np.concatenate(column) for column in zip(*ends, strict=True))
    return peers(world_size, np.concatenate((a, b)), np.concatenate((b, a)), np.concatenate((weight, weight)))


def _digits(n: int, base: int) -> list[tuple[int, int]]:
    """The digits of n that are not 0, the highest first, each with its place's value."""
    place, found = 1, []
    while n:
        n, digit = divmod(n, base)
        found.append((digit, place))
        place *= base
    return [(digit, place) for digit, place in reversed(found) if digit]


def _rough_part(n: int, base: int) -> int:
    """n without its prime factors up to `base`."""
    for d in range(2, min(n, base) + 1):
        while n % d == 0:
            n //= d
    return n


@cache
def _factors(n: int, base: int) -> tuple[int, ...]:
    """As few factors as possible, each at most `base`, whose product is n."""
    if n == 1:
        return ()
    ways = [
        (d, *_factors(n // d, base))
        for d in range(min(n, base), 1, -1)
        if n % d == 0 and _rough_part(n // d, base) == 1
    ]
    return min(ways, key=len)
