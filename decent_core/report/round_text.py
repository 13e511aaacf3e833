"""Rounds and weights in words, for a reader who has not seen the topology before."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from decent_core.topology.rounds import Floats, GroupRound, Ints, PeerRound, Round

SHOWN = 12


def describe_round(round_: Round) -> str:
    """Who averages with whom, in one or a few lines."""
    return _groups(round_) if isinstance(round_, GroupRound) else _peers(round_)


def count_round(round_: Round) -> str:
    """What a round consists of, in a few words."""
    return _count_groups(round_) if isinstance(round_, GroupRound) else _count_peers(round_)


def weight_in_words(weight: float) -> str:
    """A weight as a simple fraction where it is one, or with three digits."""
    fraction = Fraction(weight).limit_denominator(64)
    return str(fraction) if abs(fraction - weight) < 1e-9 else f"{weight:.3g}"


def workers_in_words(workers: Sequence[int]) -> str:
    """Worker numbers with runs of them drawn together: 0-3, 8-11."""
    numbers = np.array(workers)
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}{'-' if len(r) > 2 else ', '}{r[-1]}" for r in runs)


def offset_in_words(offset: int) -> str:
    """The worker `offset` places on: i+1, i-2."""
    return f"i{offset:+d}"


def common_rule(round_: PeerRound) -> dict[int, float] | None:
    """Offset -> weight if all workers follow the same rule on the circle, else None."""
    n = round_.world_size
    offsets = (round_.sources - np.arange(n)[:, None]) % n
    offsets = np.where(offsets > n // 2, offsets - n, offsets)
    order = np.argsort(offsets, axis=1)
    offsets, weights = np.take_along_axis(offsets, order, 1), np.take_along_axis(round_.weights, order, 1)
    if (offsets != offsets[0]).any() or np.ptp(weights, axis=0).max() > 1e-12:
        return None
    return {u: w for u, w in zip(offsets[0].tolist(), weights[0].tolist(), strict=True) if w}


def degrees(round_: PeerRound) -> Ints:
    """How many others each worker takes from, int [N]."""
    return (round_.weights[:, 1:] > 0).sum(axis=1)


def shares(round_: PeerRound) -> list[str]:
    """The different weights with which workers take from others."""
    return sorted({weight_in_words(w) for w in round_.weights[:, 1:].ravel() if w})


def counted(count: int, what: str) -> str:
    """A number with its noun: 1 pair, 2 pairs."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def _groups(round_: GroupRound) -> str:
    parts = []
    for groups in reversed(round_.groups):
        count, m = groups.shape
        if m == 1:
            parts.append(f"{workers_in_words(groups[:SHOWN, 0].tolist())}{_more(count)} alone")
        elif m == 2:
            parts.append("pairs " + "  ".join(f"{a}\u2013{b}" for a, b in groups[:SHOWN].tolist()) + _more(count))
        else:
            sets = "  ".join("{" + workers_in_words(row) + "}" for row in groups[:SHOWN].tolist())
            parts.append(f"{counted(count, 'group')} of {m:,}: {sets}{_more(count)}")
    return "\n".join(parts)


def _peers(round_: PeerRound) -> str:
    rule = common_rule(round_)
    if rule is not None:
        others = ", ".join(f"{weight_in_words(w)} of worker {offset_in_words(u)}" for u, w in rule.items() if u)
        return f"every worker i takes {weight_in_words(rule[0])} of itself, {others}"
    alone = np.flatnonzero((round_.weights[:, 1:] == 0).all(axis=1)).tolist()
    taking = [i for i in range(round_.world_size) if i not in set(alone)]
    lines = [_worker(i, round_.sources[i], round_.weights[i]) for i in taking[:SHOWN]]
    if alone:
        lines.append(f"{workers_in_words(alone[:SHOWN])}{_more(len(alone))} alone")
    return "\n".join(lines) + _more(len(taking))


def _worker(i: int, sources: Ints, weights: Floats) -> str:
    by_weight: dict[str, list[int]] = {}
    for source, weight in zip(sources[1:].tolist(), weights[1:].tolist(), strict=True):
        if weight:
            by_weight.setdefault(weight_in_words(weight), []).append(source)
    taken = "; ".join(f"{weight} of {workers_in_words(sources)}" for weight, sources in by_weight.items())
    return f"{i} takes {weight_in_words(weights[0])} of itself, {taken}"


def _count_groups(round_: GroupRound) -> str:
    words = []
    for groups in reversed(round_.groups):
        count, m = groups.shape
        words.append({1: f"{count:,} alone", 2: counted(count, "pair")}.get(m, f"{counted(count, 'group')} of {m:,}"))
    return ", ".join(words)


def _count_peers(round_: PeerRound) -> str:
    rule = common_rule(round_)
    if rule is not None and len(rule) <= 3:
        others = [f"{weight_in_words(w)} of {offset_in_words(u)}" for u, w in rule.items() if u]
        return f"i takes {', '.join([f'{weight_in_words(rule[0])} of itself', *others])}"
    taken, weights = degrees(round_), shares(round_)
    alone = f", {(taken == 0).sum()} alone" if (taken == 0).any() else ""
    if taken.max() == 1 and np.array_equal(round_.matrix(), round_.matrix().T):
        return f"{counted(int((taken == 1).sum()) // 2, 'pair')}, weight {', '.join(weights)}{alone}"
    most = str(taken.max()) if taken.min() == taken.max() else f"up to {taken.max()}"
    return f"each takes {weights[0] + ' of' if len(weights) == 1 else 'from'} {most} others{alone}"


def _more(count: int) -> str:
    return f" \u2026 ({count:,} in all)" if count > SHOWN else ""
