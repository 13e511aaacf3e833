"""Published numbers, as results/published.csv has them. No torch."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from decent_core.records.columns import read_csv


@dataclass(frozen=True)
class Published:
    """One published number; `value` is None where none could be established, and the note says what is known."""

    item: str  # the table or figure, as the paper calls it
    experiment: str  # the row in conf/table that reproduces it; empty: no row does
    task: str
    world_size: int
    local_size: int
    name: str  # of the method, as the paper calls it
    topology: str
    metric: str
    value: float | None
    plus_minus: float | None
    note: str


COLUMNS = [field.name for field in fields(Published)]


def read_published(path: Path) -> list[Published]:
    """The lines of a CSV file of published numbers; ValueError that names file, line and column of what is wrong.

    Further columns are for the file's readers.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    return [_published(cells, f"{path}, line {line}") for line, cells in read_csv(content, str(path), COLUMNS)]


def published_value(published: Iterable[Published], experiment: str | None, metric: str) -> Published | None:
    """What was published for an experiment in a metric."""
    return next((p for p in published if p.experiment == experiment and p.metric == metric), None)


def _published(cells: dict[str, str], where: str) -> Published:
    values: dict[str, Any] = {name: cells[name] for name in COLUMNS}
    for name, kind, expected in (
        ("world_size", int, "a whole number"), ("local_size", int, "a whole number"),
        ("value", _number, "a number or nothing"), ("plus_minus", _number, "a number or nothing"),
    ):  # fmt: skip
        try:
            values[name] = kind(cells[name])
        except ValueError:
            raise ValueError(f"{where}: column {name!r} is {cells[name]!r}, expected {expected}") from None
    return Published(**values)


def _number(text: str) -> float | None:
    return float(text) if text else None
