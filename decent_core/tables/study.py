"""What a study compares, and the runs that this takes."""

from dataclasses import dataclass, field
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from decent_core.config.compose import CONF, choices
from decent_core.config.validation import no_such, validated
from decent_core.tables.pool import Child
from decent_core.tables.registry import make_run


@dataclass(frozen=True)
class Panel:
    """A setting in which all lines are compared."""

    label: str
    overrides: tuple[str, ...] = ()
    rates: tuple[float, ...] | None = None  # null: the study's


@dataclass(frozen=True)
class Line:
    """One method with its optimizer and topology."""

    label: str
    overrides: tuple[str, ...]
    rates: tuple[float, ...] | None = None  # null: the panel's


@dataclass(frozen=True)
class Study:
    """The content of conf/study/<name>.yaml."""

    title: str
    scale: str
    seeds: int
    common: tuple[str, ...]
    panels: tuple[Panel, ...]
    lines: tuple[Line, ...]
    baseline: str  # label of the line that others are compared with
    rates: tuple[float, ...]
    focus: str | None = None  # label of a line whose lead over each other one is shown too
    notes: tuple[str, ...] = ()  # what a reader of the table must know beside what it says itself

    def rates_of(self, panel: Panel, line: Line) -> list[float]:
        """The grid of a line in a panel."""
        return list(line.rates or panel.rates or self.rates)

    @property
    def tunes(self) -> bool:
        """Whether any line has rates to choose from."""
        return any(len(self.rates_of(panel, line)) > 1 for panel in self.panels for line in self.lines)


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    panel: str
    line: str
    rate: float
    seed: int
    run: Child = field(compare=False)


def load_study(name: str) -> Study:
    """Read and check a study; ValueError if there is none of the name, or something in it is wrong."""
    if name not in choices("study"):
        raise ValueError(f"name={name}: {no_such('study', name, choices('study'))}")
    content = yaml.safe_load((CONF / "study" / f"{name}.yaml").read_text())
    study = validated(Study, content, f"conf/study/{name}: ")
    for key, label in {"baseline": study.baseline, "focus": study.focus}.items():
        if label is not None and label not in [line.label for line in study.lines]:
            raise ValueError(f"conf/study/{name}: {key}={label}: none of its lines has this label")
    return study


def plan(study: Study, scale: str, seeds: int, folder: Path) -> list[Cell]:
    """All cells of the grid, panel by panel, and in each the whole grid of a seed before the next seed's."""
    if seeds < 1:
        raise ValueError(f"seeds={seeds}: must be at least 1")
    return [
        _cell(study, panel, line, rate, seed, [f"scale={scale}"], folder)
        for panel in study.panels
        for seed in range(1, seeds + 1)
        for line in study.lines
        for rate in study.rates_of(panel, line)
    ]


def _cell(
    study: Study, panel: Panel, line: Line, rate: float, seed: int, scale: list[str], folder: Path
) -> Cell:  # fmt: skip
    overrides = [*scale, *study.common, *panel.overrides, *line.overrides, f"optimizer.lr={rate:g}", f"seed={seed}"]
    name = "-".join(text for text in (panel.label, line.label, f"{rate:g}", f"s{seed}") if text)
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in name)
    return Cell(panel.label, line.label, rate, seed, make_run(safe, overrides, folder))
