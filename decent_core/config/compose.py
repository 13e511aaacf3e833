"""`conf/` composed by Hydra with a table's row and the user's overrides into plain values."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf

from decent_core.config.choices import (
    CONF,
    DEFAULTS,
    FILE_GROUPS,
    GROUPS,
    OPEN,
    OWN_BATCH,
    batches,
    choices,
    keys_of,
    scales_of,
    store_registries,
)  # fmt: skip
from decent_core.config.table_file import Choices, find_row
from decent_core.config.validation import no_such


class NotAtThisScale(ValueError):
    """The task has no values, or no such batch, at this scale."""


class MissingValue(ValueError):
    """The choices leave a value open, such as a learning rate that could not be established for a published row."""


def compose(overrides: Sequence[str], complete: bool = True) -> tuple[dict[str, Any], dict[str, str | None]]:
    """The composed values, and the name chosen in each group, with the task's `package` as a further one.

    With `complete` none of the values may be open; otherwise an open one is OPEN. A later source wins: the files of
    conf/, what the task has for the optimizer and for the batch, the row of `experiment`, the user's keys. Raises
    ValueError that names a wrong key or choice.
    """
    parsed = _parse(overrides)
    given = {o.key_or_group: str(o.value()) for o in parsed if o.key_or_group in GROUPS}
    for group, name in given.items():
        if name not in choices(group):
            raise ValueError(f"{group}={name}: {no_such(group, name, choices(group))}")
    row = _row(given)
    names: dict[str, str | None] = {**DEFAULTS, **{group: row[group] for group in GROUPS if group in row}, **given}
    task, scale = str(names["task"]), str(names["scale"])
    if scale not in scales_of(task):
        raise NotAtThisScale(f"scale={scale}: task={task} has no such scale; it has {', '.join(scales_of(task))}")
    lines = [f"{group}={names[group]}" for group in FILE_GROUPS if group in names]
    composed, chosen = _hydra(CONF, (f"task={task}/{scale}", *lines))
    values, names = deepcopy(composed), {"experiment": None, **chosen, **names}
    _apply_choices(values, names)
    own = keys_of("schedule", str(names["schedule"]))  # the task's values may be for another schedule
    values["schedule"] = {key: value for key, value in values["schedule"].items() if key in own}
    for key, value in row.items():
        if key not in GROUPS:
            _set(key, value, values)
    for override in parsed:
        if override.key_or_group not in GROUPS:
            _set(override.key_or_group, override.value(), values)
    if complete:
        _check_complete(values, names)
    names["package"] = values["task"].pop("package")
    return {key: value for key, value in values.items() if not key.startswith("with_")}, names


def _row(given: Mapping[str, str]) -> Choices:
    """What the row of a given `experiment` chooses; nothing without one."""
    if "experiment" not in given:
        return {}
    table, row = find_row(given["experiment"])
    found = table.choices_of(row, given.get("scale", DEFAULTS["scale"]))
    if given.get("task", found["task"]) != found["task"]:
        raise ValueError(f"task={given['task']}: experiment={given['experiment']} is a row of task={found['task']}")
    return found


def _apply_choices(values: dict[str, Any], names: Mapping[str, str | None]) -> None:
    """Merge in what the task has, at its scale, for the chosen optimizer and batch."""
    task, scale, batch = (str(names[group]) for group in ("task", "scale", "batch"))
    _merge(values, values["with_optimizer"].get(names["optimizer"], {}))
    if batch != OWN_BATCH and batch not in values["with_batch"]:
        there = batches(task).get(batch)
        where = f"it has at scale={', '.join(there)}" if there else "it has its own batch alone"
        raise NotAtThisScale(f"batch={batch}: task={task} has no such batch at scale={scale}; {where}")
    _merge(values, values["with_batch"].get(batch, {}))


def _merge(values: dict[str, Any], changes: Mapping[str, Mapping[str, Any]]) -> None:
    for part, entries in changes.items():
        values[part] |= entries


def _check_complete(values: Mapping[str, Any], names: Mapping[str, str | None]) -> None:
    """Raises MissingValue for a value that is still open."""
    missing = sorted(_open_keys({key: value for key, value in values.items() if not key.startswith("with_")}))
    if "optimizer.lr" in missing:
        known = ", ".join(values["with_optimizer"]) or "none"
        raise MissingValue(
            f"optimizer.lr: task={names['task']} has no learning rate for optimizer={names['optimizer']} at "
            f"scale={names['scale']} (it has for: {known}); give optimizer.lr=VALUE"
        )
    if missing:
        raise MissingValue(f"{missing[0]}: no value is set for this choice; give {missing[0]}=VALUE")


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
    """The values of these choices, before any key is overridden, and the name chosen in each group of files."""
    store_registries()
    with hydra.initialize_config_dir(str(conf), version_base="1.3"):
        try:
            composed = hydra.compose("config", list(groups), return_hydra_config=True)
        except HydraException as error:
            raise ValueError(f"{' '.join(groups)}: {_first_line(error)}") from None
    names = {group: composed.hydra.runtime.choices[group] for group in FILE_GROUPS}
    values = OmegaConf.to_container(composed)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items() if key != "hydra"}, names


def _set(key: str, value: Any, values: dict[str, Any]) -> None:
    """Set a dotted key; raises ValueError that names what is wrong in it."""
    node: Any = values
    *before, last = key.split(".")
    path = ""
    for part in (*before, last):
        if not isinstance(node, dict):
            raise ValueError(f"{key}: {path[:-1]} holds a value, not keys")
        known = [*node, *(GROUPS if not path else ())]
        if part not in known or part.startswith("with_"):
            raise ValueError(f"{path}{part}: {no_such('key', part, known)}")
        holder, node, path = node, node.get(part), f"{path}{part}."
    holder[last] = value


def _open_keys(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _open_keys(value, f"{prefix}{key}.")
        elif value == OPEN:
            yield f"{prefix}{key}"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
