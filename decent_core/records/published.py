"""Published numbers, as results/published.csv has them. No torch."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Published:
    """One published number; `value` is None where none could be established, and the note says what is known."""

    experiment: str  # the row in conf/experiment that reproduces it; empty: no row does
    task: str
    name: str
    metric: str
    value: float | None
    plus_minus: float | None
    note: str


def read_published(path: Path) -> list[Published]:
    """The published values of a CSV file; further columns are for its readers."""

    def number(text: str) -> float | None:
        return float(text) if text else None

    with open(path, newline="") as stream:
        return [
            Published(
                experiment=line["experiment"],
                task=line["task"],
                name=line["name"],
                metric=line["metric"],
                value=number(line["value"]),
                plus_minus=number(line["plus_minus"]),
                note=line["note"],
            )
            for line in csv.DictReader(stream)
        ]


def published_value(published: Iterable[Published], experiment: str | None, metric: str) -> Published | None:
    """What was published for an experiment in a metric."""
    return next((p for p in published if p.experiment == experiment and p.metric == metric), None)
