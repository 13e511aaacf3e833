"""The table of a study: every method at its own best rate and at the baseline's, paired by seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas

from decent_core.compare import Row, difference, make_row
from decent_core.intervals import Interval
from decent_core.record import Record
from scripts.reporting.notes import metric_label, origins
from scripts.reporting.table_text import NOTHING, markdown_table, number
from scripts.studies.plan import Cell, Study


@dataclass(frozen=True)
class Line:
    """A line's runs in a panel: a row of seeds for each rate."""

    label: str
    rows: dict[float, Row]
    best_rate: float | None  # of those at which all seeds of the line have ended well; None if there is none
    at_edge: bool  # whether it is the smallest or largest that was tried: another might be better still

    @property
    def best(self) -> Row | None:
        return None if self.best_rate is None else self.rows[self.best_rate]


class Table:
    """Cells of a study with their records, at least one."""

    def __init__(self, study: Study, found: Sequence[tuple[Cell, Record]]):
        if not found:
            raise ValueError("no run of the study is finished; leave out jobs=0 to run it")
        self.study, self.found = study, found
        self.metric = found[0][1].primary_metric
        self.lower_is_better = make_row("", [found[0][1]]).lower_is_better

    @cached_property
    def panels(self) -> dict[str, list[Line]]:
        """The lines of each panel of which anything has been run, in the study's order."""
        begun = {cell.panel for cell, _ in self.found}
        return {
            panel.label: [
                self._line(panel.label, line.label, self.study.rates_of(panel, line)) for line in self.study.lines
            ]
            for panel in self.study.panels
            if panel.label in begun
        }

    def _line(self, panel: str, label: str, grid: list[float]) -> Line:
        runs: dict[float, list[Record]] = {}
        for cell, record in self.found:
            if (cell.panel, cell.line) == (panel, label):
                runs.setdefault(cell.rate, []).append(record)
        rows = {rate: make_row(label, records) for rate, records in sorted(runs.items())}
        seeds = {record.seed for records in runs.values() for record in records}
        whole = {rate: self._mean(row) for rate, row in rows.items() if {run.seed for run in row.runs} == seeds}
        choose = min if self.lower_is_better else max
        best = choose(whole, key=lambda rate: whole[rate]) if whole else None
        return Line(label, rows, best, len(grid) > 1 and best in (min(rows, default=None), max(rows, default=None)))

    def _mean(self, row: Row) -> float:
        found = row.interval(self.metric)
        assert found is not None
        return found.mean

    def values(self) -> list[dict[str, Any]]:
        """A row for each panel and line: its own best rate, and the baseline's."""
        found = []
        for panel, lines in self.panels.items():
            base = next(line for line in lines if line.label == self.study.baseline)
            for line in lines:
                equal = line.rows.get(base.best_rate) if base.best_rate is not None else None
                found.append(
                    {
                        "panel": panel,
                        "line": line.label,
                        "rates": list(line.rows),
                        "rate": line.best_rate,
                        "at_edge": line.at_edge,
                        "tuned": line.best.interval(self.metric) if line.best else None,
                        "difference": self._difference(line.best, base.best),
                        "equal_rate": base.best_rate if equal else None,
                        "equal": equal.interval(self.metric) if equal else None,
                        "equal_difference": self._difference(equal, base.best),
                        "runs": sum(len(row.records) for row in line.rows.values()),
                        "missed": sum(sum(row.missed.values()) for row in line.rows.values()),
                    }
                )
        return found

    def _difference(self, row: Row | None, base: Row | None) -> Interval | None:
        return None if row is None or base is None or row is base else difference(row, base, self.metric)

    def markdown(self) -> str:
        """Title, all panels at a glance, a table for each panel, and notes."""
        header = [
            "method", "rates tried", "best rate", metric_label(self.metric), "difference", "at the baseline's rate",
            "difference there", "runs", "diverged",
        ]  # fmt: skip
        parts = [f"**{self.study.title}: {metric_label(self.metric)} of the averaged model after training**"]
        if len(self.panels) > 1:
            parts += ["Each method at its own best rate:", self._overview()]
        for panel in self.panels:
            rows = [self._text(row) for row in self.values() if row["panel"] == panel]
            parts += [self._heading(panel), markdown_table(header, rows)]
        parts.append("\n".join(f"- {note}" for note in self.notes()))
        return "\n\n".join(parts) + "\n"

    def _overview(self) -> str:
        """Methods against panels."""
        rows: dict[str, list[str]] = {}
        for row in self.values():
            rows.setdefault(row["line"], [row["line"]]).append(number(row["tuned"], 2))
        return markdown_table(["method", *self.panels], list(rows.values()))

    def _heading(self, panel: str) -> str:
        seeds = sorted({cell.seed for cell, _ in self.found if cell.panel == panel})
        ran = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        return f"{panel} ({ran}):" if panel else f"{ran.capitalize()}:"

    def _text(self, row: dict[str, Any]) -> list[str]:
        best = NOTHING if row["rate"] is None else f"{row['rate']:g}{' (edge)' if row['at_edge'] else ''}"
        base = row["line"] == self.study.baseline
        tried = ", ".join(f"{rate:g}" for rate in row["rates"])
        return [
            row["line"], tried, best, number(row["tuned"], 3), "baseline" if base else _signed(row["difference"]),
            number(row["equal"], 3), "" if base else _signed(row["equal_difference"]), str(row["runs"]),
            str(row["missed"]),
        ]  # fmt: skip

    def notes(self) -> list[str]:
        """What a reader must know to read the numbers."""
        records = [record for _, record in self.found]
        steps = sorted({record.steps for record in records})
        return [
            "±: half the width of the 95 % Student-t interval over seeds; differences to the baseline at its own best "
            "rate are paired by seed. Without ±: a single run.",
            "The best rate has the best mean over seeds, on the validation set on which it is then reported; (edge): "
            "the smallest or largest that was tried, another may be better still."
            if self.study.tunes
            else "One rate a method.",
            *self.study.notes,
            f"Every method has the same steps ({' or '.join(f'{n:,}' for n in steps)}), schedule and data.",
            *origins(records),
        ]

    def frame(self) -> pandas.DataFrame:
        """Every rate of every line, unrounded."""
        lines = [(panel, line) for panel, found in self.panels.items() for line in found]
        return pandas.DataFrame(
            [
                {
                    "panel": panel, "method": line.label, "rate": rate, "seeds": len(row.runs),
                    "missed": sum(row.missed.values()),
                    **_spread(row.interval(self.metric), self.metric),
                    **_spread(row.interval("consensus_distance"), "consensus_distance"),
                }
                for panel, line in lines
                for rate, row in line.rows.items()
            ]
        )  # fmt: skip


def _spread(found: Interval | None, name: str) -> dict[str, float | None]:
    return {name: found.mean if found else None, f"{name}_half_width": found.half_width if found else None}


def _signed(found: Interval | None) -> str:
    if found is None:
        return NOTHING
    return f"{found.mean:+.3f}" + ("" if found.half_width is None else f" ± {found.half_width:.3f}")
