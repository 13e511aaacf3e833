"""Which runs tables have: every row, in every setting, at every learning rate, with every seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any

from decent_core.config.compose import MissingValue, NotAtThisScale
from decent_core.config.load import load
from decent_core.config.run_config import RunConfig
from decent_core.config.table_file import Row, Setting, TableFile, load_table, table_names
from decent_core.tables.planned_run import PlannedRun

CHOSEN_HERE = ("experiment", "scale", "seed", "out")  # by planning, for each run


class NeedsLauncher(ValueError):
    """The row is about processes that exchange over a network."""


@dataclass(frozen=True)
class Cell:
    """One run with its place in its table."""

    table: TableFile
    row: Row
    setting: Setting
    rate: float | None  # learning rate, where the table compares some
    seed: int
    run: PlannedRun

    @property
    def experiment(self) -> str:
        """The row's name, such as `p/gpt2/dadam_aer`."""
        return f"{self.table.name}/{self.row.key}"


@dataclass(frozen=True)
class Plan:
    """The runs of some rows, and why other rows have none: row name -> reason."""

    cells: tuple[Cell, ...]
    left_out: Mapping[str, str]

    @property
    def runs(self) -> list[PlannedRun]:
        return [cell.run for cell in self.cells]


def plan(
    tables: str,
    scale: str | None,
    seeds: int | None,
    folder: Path,
    overrides: Sequence[str] = (),
    launched: bool = False,
) -> Plan:
    """The runs of all rows that fit one of the patterns in `tables`, which spaces separate.

    A pattern is a table (`p/gpt2`), a row, or either with `*`; `p-table2` stands for all tables that begin with
    p/table2. A table that compares learning rates is long, and fits only a pattern that begins with its whole name.
    `scale`, `seeds` (1 to this): None for each table's own. `overrides` go to every run. `launched`: runs for a
    launcher, a process for each worker; otherwise rows that need one are left out. Raises ValueError if no row fits.
    """
    _check(seeds, overrides)
    cells: list[Cell] = []
    left_out: dict[str, str] = {}
    for table, rows in _chosen(tables):
        at = scale or table.scale or "tiny"
        for setting, seed, row in product(table.settings, range(1, (seeds or table.seeds) + 1), rows):
            for rate in table.rates_of(setting, row) or (None,):
                try:
                    cells.append(_cell(table, row, setting, rate, seed, at, folder, overrides, launched))
                except (NotAtThisScale, MissingValue, NeedsLauncher) as error:
                    left_out[f"{table.name}/{row.key}"] = str(error)
    return Plan(tuple(cells), left_out)


def _check(seeds: int | None, overrides: Sequence[str]) -> None:
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds={seeds}: must be at least 1")
    for text in overrides:
        if (key := text.partition("=")[0]) in CHOSEN_HERE:
            raise ValueError(f"overrides: {text}: {key} is chosen for each run; leave it out")


def _chosen(patterns: str) -> Iterator[tuple[TableFile, list[Row]]]:
    """Tables with those of their rows that fit a pattern."""
    found = False
    for table in map(load_table, table_names()):
        rows = [row for row in table.rows if any(_fits(text, table, row) for text in patterns.split())]
        if rows:
            found = True
            yield table, rows
    if not found:
        for table in map(load_table, table_names()):
            if table.shown_by is not None and patterns.replace("-", "/", 1) == table.name:
                raise ValueError(f"table={patterns}: {table.title} has no runs of its own: {table.shown_by}")
        names = ", ".join(name for name in table_names() if load_table(name).rows)
        raise ValueError(f"{patterns}: no such table or row; there are the tables {names}")


def _fits(pattern: str, table: TableFile, row: Row) -> bool:
    short = "/" not in pattern and "*" not in pattern
    name = pattern.replace("-", "/", 1) if short else pattern
    if table.compares_rates and not f"{name}/".startswith(f"{table.name}/"):
        return False
    pattern = f"{name}*" if short else name
    return fnmatch(table.name, pattern) or fnmatch(f"{table.name}/{row.key}", pattern)


def _cell(
    table: TableFile, row: Row, setting: Setting, rate: float | None, seed: int, scale: str, folder: Path,
    overrides: Sequence[str], launched: bool,
) -> Cell:  # fmt: skip
    chosen = [f"experiment={table.name}/{row.key}", f"scale={scale}"]
    chosen += [f"{key}={_text(value)}" for key, value in setting.choices.items()]
    chosen += [f"optimizer.lr={rate:g}"] if rate is not None else []
    chosen += [f"seed={seed}", *overrides]
    parts = [setting.key, "" if rate is None else f"lr{rate:g}", f"s{seed}"]
    name = "-".join([f"{table.name}/{row.key}", *filter(None, parts)])
    config = _for_launcher(chosen) if launched else _for_one_process(chosen)
    return Cell(table, row, setting, rate, seed, make_run(name, config, folder / scale))


def make_run(name: str, config: RunConfig, folder: Path) -> PlannedRun:
    """A run in a folder under `folder` that names its configuration: a changed one is a new run."""
    own = folder / f"{name}-{config.config_hash[:8]}"
    return PlannedRun(name, tuple(config.overrides), own, config.config_hash, config.trainer.steps)


def _for_one_process(overrides: list[str]) -> RunConfig:
    config = load(overrides)
    if config.engine.name != "virtual":
        raise NeedsLauncher("engine=distributed: it needs a launcher, as make submit or torchrun is")
    return config


def _for_launcher(overrides: list[str]) -> RunConfig:
    """With all that the launcher would decide otherwise, and a record would then name another configuration."""
    config = load([*overrides, "engine=distributed"])
    return config if config.local_size is not None else load([*config.overrides, "local_size=1"])


def _text(value: Any) -> str:
    """A value of a table file as an override has it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"[{','.join(map(_text, value))}]" if isinstance(value, list) else str(value)
