"""Published numbers, as results/published.csv has them. No torch."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Published:
    """One published number; `value` is None where none could be established, and the note says what is known."""

    item: str  # the table or figure of the paper
    experiment: str  # the row that reproduces it; empty: no row does
    task: str
    world_size: int
    local_size: int
    name: str
    topology: str
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
                item=line["item"],
                experiment=line["experiment"],
                task=line["task"],
                world_size=int(line["world_size"]),
                local_size=int(line["local_size"]),
                name=line["name"],
                topology=line["topology"],
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
