"""A periodic list of rounds, as a family in `graphs/` returns it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from decent_core.topology.make_rounds import disjoint
from decent_core.topology.rounds import Round


@dataclass(frozen=True)
class Schedule:
    """`round_at(t)` for t in 0..period-1, a pure function of t.

    `push`: the rounds are only column-stochastic (they keep the sum over workers), for methods that weigh it out.
    """

    period: int
    round_at: Callable[[int], Round]
    push: bool = False


def static(fixed: Round, push: bool = False) -> Schedule:
    """The same round every step."""
    return Schedule(1, lambda step: fixed, push)


def cycle(rounds: Sequence[Round], push: bool = False) -> Schedule:
    """The rounds one after the other, and again."""
    return Schedule(len(rounds), lambda step: rounds[step], push)


def identity(world_size: int, push: bool = False) -> Schedule:
    """Nobody exchanges anything: what a single worker does."""
    return static(disjoint(world_size), push)
