"""`conf/` and the code's registries, composed by Hydra with the user's overrides into plain values."""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf

from decent_core import topology
from decent_core.config.validation import no_such
from decent_core.methods import METHODS

CONF = Path(__file__).resolve().parents[2] / "conf"
#: what a user chooses by name; `recipe`, the values of a task at a scale, follows from two of them
GROUPS = ("task", "optimizer", "schedule", "method", "topology", "engine", "scale", "batch", "experiment", "logger")
OPEN = "???"  # OmegaConf's mark of a value that must be given
EXPERIMENT = "experiment@_global_"  # Hydra's key: an experiment sets values anywhere


class NoSuchRecipe(ValueError):
    """The task has no recipe, or no such batch, at this scale."""


class MissingValue(ValueError):
    """The choices leave a value open, such as a rate that could not be established for a published row."""


def compose(overrides: Sequence[str], complete: bool = True) -> tuple[dict[str, Any], dict[str, str | None]]:
    """The composed values, and the name chosen in each group; raises ValueError that names a wrong key or choice.

    With `complete` none of the values may be open; otherwise an open one is OPEN.
    """
    _store_registries()
    parsed = _parse(overrides)
    groups = [override for override in parsed if override.key_or_group in GROUPS]
    for override in groups:
        group, name = override.key_or_group, str(override.value())
        if name not in choices(group):
            raise ValueError(f"{group}={name}: {no_such(group, name, choices(group))}")
    lines = [re.sub("^experiment=", f"{EXPERIMENT}=", str(override.input_line)) for override in groups]
    values, names = deepcopy(_hydra(CONF, tuple(lines)))
    _check_batch(names)
    for override in parsed:
        holder, last = _place(override.key_or_group, values)
        if override not in groups:
            holder[last] = override.value()
    if complete and (missing := sorted(_open_keys(values))):
        raise MissingValue(f"{missing[0]}: no value is set for this choice; give {missing[0]}=VALUE")
    return {key: value for key, value in values.items() if key not in ("scale", "batch")}, names


@cache
def choices(group: str) -> list[str]:
    """All names of a group: the files of conf/, and for methods and topologies the registries of the code."""
    files = [path.relative_to(CONF / group).with_suffix("").as_posix() for path in (CONF / group).rglob("*.yaml")]
    registry = {"method": list(METHODS), "topology": list(topology.names())}
    return sorted([*files, *registry.get(group, [])])


@cache
def _store_registries() -> None:
    """Methods and topologies need no YAML: their options and defaults stand in the code."""
    store = ConfigStore.instance()
    for name, method in METHODS.items():
        options = {field.name: field.default for field in fields(method) if field.init}
        given = {key: OPEN if default is MISSING else default for key, default in options.items()}
        store.store(group="method", name=name, node={"name": name, **given})
    for name in topology.names():
        store.store(group="topology", name=name, node={"name": name, **topology.options(name)})


def _parse(overrides: Sequence[str]) -> list[Override]:
    parsed: list[Override] = []
    for text in overrides:
        key, equals, _ = text.partition("=")
        if not equals or not key or key[0] in "+~-" or "@" in key:
            raise ValueError(f"{text}: give each override as key=value; --help lists the keys")
        if key in [other.key_or_group for other in parsed]:
            raise ValueError(f"{key}: given more than once")
        override = _parse_one(text)
        if isinstance(override.value(), dict):
            raise ValueError(f"{text}: give one key at a time, {key}.KEY=VALUE")
        if override.is_sweep_override():
            raise ValueError(f"{text}: a run has one value a key; a list is written {key}=[a,b]")
        parsed.append(override)
    return parsed


@lru_cache(maxsize=1024)
def _parse_one(text: str) -> Override:
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise ValueError(f"{text}: {_first_line(error)}") from None


@cache
def _hydra(conf: Path, groups: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, str | None]]:
    """The values of these choices, before any key is overridden, and the name chosen in each group."""
    with hydra.initialize_config_dir(str(conf), version_base="1.3"):
        try:
            composed = hydra.compose("config", list(groups), return_hydra_config=True)
        except HydraException as error:
            raise _explained(_first_line(error), groups) from None
    names = dict(composed.hydra.runtime.choices)
    names["experiment"] = names.pop(EXPERIMENT)
    values = OmegaConf.to_container(composed)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items() if key != "hydra"}, names


def _explained(message: str, groups: Sequence[str]) -> ValueError:
    recipe = message.partition("'recipe/")[2].rstrip("'")
    if not recipe:
        return ValueError(f"{' '.join(groups)}: {message}")
    task, scale = recipe.split("/")
    there = sorted(path.stem for path in (CONF / "recipe" / task).glob("*.yaml"))
    return NoSuchRecipe(f"scale={scale}: task={task} has no recipe at this scale; it has {', '.join(there)}")


def _check_batch(names: Mapping[str, str | None]) -> None:
    task, scale, batch = (names[group] for group in ("task", "scale", "batch"))
    if batch != "own" and not (CONF / "sizes" / f"{task}/{scale}/{batch}.yaml").exists():
        there = sorted(path.parent.name for path in (CONF / "sizes" / str(task)).rglob(f"{batch}.yaml"))
        where = f"it has at scale={', '.join(there)}" if there else "it has its own batch alone"
        raise NoSuchRecipe(f"batch={batch}: task={task} has no such batch at scale={scale}; {where}")


def _place(key: str, values: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Where a dotted key's value stands: the mapping that holds it, and its key there."""
    node: Any = values
    *before, last = key.split(".")
    path = ""
    for part in (*before, last):
        if not isinstance(node, dict):
            raise ValueError(f"{key}: {path[:-1]} holds a value, not keys")
        known = [*node, *(GROUPS if not path else ())]
        if part not in known:
            raise ValueError(f"{path}{part}: {no_such('key', part, known)}")
        holder, node, path = node, node.get(part), f"{path}{part}."
    return holder, last


def _open_keys(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _open_keys(value, f"{prefix}{key}.")
        elif value == OPEN:
            yield f"{prefix}{key}"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
