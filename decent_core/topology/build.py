"""From a name to a topology. Each module in `graphs/` is one topology; its file name is the topology's name."""

import difflib
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal

from decent_core.topology import graphs
from decent_core.topology.layout import ClusterLayout, make_layout
from decent_core.topology.rounds import Floats, Ints, Round

KEPT_ROUNDS = 64


@dataclass(frozen=True, eq=False)
class Topology:
    """A periodic schedule of rounds over the workers of one world."""

    name: str
    layout: ClusterLayout
    options: Mapping[str, Any]
    period: int
    #: the rounds are only column-stochastic: for methods that carry a weight beside x (`sgp`)
    push: bool
    _round_at: Callable[[int], Round]

    @property
    def world_size(self) -> int:
        return self.layout.size

    @property
    def local_size(self) -> int | tuple[int, ...]:
        return self.layout.local_size

    @property
    def node_of(self) -> Ints:
        """The node of each worker, int [N]."""
        return self.layout.node_of

    def round(self, step: int) -> Round:
        """The round of training step `step` (from 0), as pure data."""
        return self._round_at(step % self.period)

    def matrix(self, step: int) -> Floats:
        """W(step), float64 [N, N]: row i holds the weights with which worker i averages."""
        return self.round(step).matrix()


def names() -> list[str]:
    """The topologies that there are, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(graphs.__path__))


def options(name: str) -> dict[str, Any]:
    """The options of a topology with their defaults. ValueError for an unknown name."""
    return {key: parameter.default for key, parameter in _parameters(_graph(name)).items()}


def summary(name: str) -> str:
    """What a topology is, in one line. ValueError for an unknown name."""
    return (_graph(name).__doc__ or "").strip().splitlines()[0]


def is_sparse(name: str) -> bool:
    """Whether rounds stay small with very many workers (SPARSE in its module). ValueError for an unknown name."""
    return getattr(_graph(name), "SPARSE", False)


def build(name: str, world_size: int, local_size: int | Sequence[int] = 1, **options: Any) -> Topology:
    """The topology `name` over `world_size` workers.

    `local_size` is the number of workers on a node (the last node takes what is left), or the size of every node.
    ValueError, saying what works, for an unknown name or option, and for workers that the topology can't serve.
    """
    graph = _graph(name)
    try:
        layout = make_layout(world_size, local_size)
        _check_options(graph, options)
        schedule = graph.schedule(layout, **options)
    except ValueError as error:
        raise ValueError(f"topology {name} with world_size={world_size}, local_size={local_size}: {error}") from None
    chosen = {key: parameter.default for key, parameter in _parameters(graph).items()} | options
    round_at = lru_cache(maxsize=KEPT_ROUNDS)(schedule.round_at)
    return Topology(name, layout, chosen, schedule.period, schedule.push, round_at)


def unknown(what: str, given: str, known: Sequence[str]) -> ValueError:
    """The error for an unknown name, with the closest known one and all that there are."""
    close = difflib.get_close_matches(given, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ValueError(f"unknown {what} {given!r}; {hint}there are: {', '.join(known) or 'none'}")


def _graph(name: str) -> ModuleType:
    if name not in names():
        raise unknown("topology", name, names())
    return importlib.import_module(f"{graphs.__name__}.{name}")


def _parameters(graph: ModuleType) -> dict[str, inspect.Parameter]:
    return dict(list(inspect.signature(graph.schedule).parameters.items())[1:])


def _check_options(graph: ModuleType, given: Mapping[str, Any]) -> None:
    known = list(_parameters(graph))
    hints = typing.get_type_hints(graph.schedule)
    for key, value in given.items():
        if key not in known:
            raise unknown("option", key, known)
        if not _fits(value, hints[key]):
            raise ValueError(f"option {key} must be {_in_words(hints[key])}, got {value!r}")


def _fits(value: object, hint: Any) -> bool:
    if typing.get_origin(hint) is Literal:
        return value in typing.get_args(hint)
    if isinstance(hint, UnionType):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def _in_words(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    if isinstance(hint, UnionType):
        return " or ".join(_in_words(part) for part in typing.get_args(hint))
    return "null" if hint is NoneType else hint.__name__
