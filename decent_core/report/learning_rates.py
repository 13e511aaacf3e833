"""A table that compares learning rates: every method at its own best rate and at the baseline's, paired by seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas

from decent_core.config.table_file import Row as TableRow
from decent_core.config.table_file import Setting, TableFile
from decent_core.records.lines import Run
from decent_core.records.record import Record
from decent_core.report.compare import Row, difference, make_row
from decent_core.report.intervals import Interval


@dataclass(frozen=True)
class TunedRow:
    """A row of the table in one setting: its runs at each learning rate, over their seeds."""

    label: str
    by_rate: dict[float, Row]
    best_rate: float | None  # of those at which all seeds of the row have ended well; None if there is none
    at_edge: bool  # whether it is the smallest or largest that was tried: another might be better still

    @property
    def best(self) -> Row | None:
        return None if self.best_rate is None else self.by_rate[self.best_rate]


class RateComparison:
    """Runs of a table at one scale, at least one."""

    def __init__(self, file: TableFile, runs: Sequence[Run]):
        if not runs:
            raise ValueError(f"table={file.name}: no run is finished; leave out jobs=0 to run it")
        self.file, self.runs = file, runs
        self.metric = runs[0].record.primary_metric
        self.lower_is_better = make_row("", [runs[0].record]).lower_is_better

    @property
    def name(self) -> str:
        """Of its files, such as p/accumulation/tiny."""
        return f"{self.file.name}/{self.runs[0].record.scale}"

    @cached_property
    def settings(self) -> dict[str, list[TunedRow]]:
        """The rows of each setting of which anything has been run, by its label, in the file's order."""
        begun = {run.setting for run in self.runs}
        return {
            setting.label: [self._row(setting, row) for row in self.file.rows]
            for setting in self.file.settings
            if setting.key in begun
        }

    def _row(self, setting: Setting, row: TableRow) -> TunedRow:
        label, grid = row.label, self.file.rates_of(setting, row)
        runs: dict[float, list[Record]] = {}
        for run in self.runs:
            if (run.setting, run.row) == (setting.key, row.key):
                assert run.learning_rate is not None
                runs.setdefault(run.learning_rate, []).append(run.record)
        rows = {rate: make_row(label, records) for rate, records in sorted(runs.items())}
        seeds = {record.seed for records in runs.values() for record in records}
        whole = {rate: self._mean(row) for rate, row in rows.items() if {run.seed for run in row.runs} == seeds}
        choose = min if self.lower_is_better else max
        best = choose(whole, key=lambda rate: whole[rate]) if whole else None
        return TunedRow(label, rows, best, len(grid) > 1 and best in (min(rows, default=None), max(rows, default=None)))

    @property
    def baseline(self) -> str | None:
        """Label of the row that differences are taken to."""
        return self._label(self.file.baseline)

    @property
    def highlight(self) -> str | None:
        """Label of the row whose lead over each other row is shown."""
        return self._label(self.file.highlight)

    @property
    def tunes(self) -> bool:
        """Whether any row has learning rates to choose from."""
        return any(len(self.file.rates_of(s, row)) > 1 for s in self.file.settings for row in self.file.rows)

    def _label(self, key: str | None) -> str | None:
        return None if key is None else self.file.row(key).label

    def _mean(self, row: Row) -> float:
        found = row.interval(self.metric)
        assert found is not None
        return found.mean

    def values(self) -> list[dict[str, Any]]:
        """For each setting and row: its own best rate, and the baseline's."""
        found = []
        for setting, rows in self.settings.items():
            base = next(row for row in rows if row.label == self.baseline)
            highlighted = next((row for row in rows if row.label == self.highlight), None)
            for row in rows:
                equal = row.by_rate.get(base.best_rate) if base.best_rate is not None else None
                found.append(
                    {
                        "setting": setting,
                        "row": row.label,
                        "rates": list(row.by_rate),
                        "rate": row.best_rate,
                        "at_edge": row.at_edge,
                        "tuned": row.best.interval(self.metric) if row.best else None,
                        "difference": self._difference(row.best, base.best),
                        "lead": self._lead(highlighted, row) if highlighted else None,
                        "equal_rate": base.best_rate if equal else None,
                        "equal": equal.interval(self.metric) if equal else None,
                        "equal_difference": self._difference(equal, base.best),
                        "runs": sum(len(group.records) for group in row.by_rate.values()),
                        "missed": sum(sum(group.missed.values()) for group in row.by_rate.values()),
                    }
                )
        return found

    def _difference(self, row: Row | None, base: Row | None) -> Interval | None:
        return None if row is None or base is None or row is base else difference(row, base, self.metric)

    def _lead(self, highlighted: TunedRow, row: TunedRow) -> Interval | None:
        """How much better the highlighted row is."""
        ahead, behind = (row, highlighted) if self.lower_is_better else (highlighted, row)
        return self._difference(ahead.best, behind.best)

    def frame(self) -> pandas.DataFrame:
        """Every rate of every row, unrounded."""
        tuned = [(setting, row) for setting, found in self.settings.items() for row in found]
        return pandas.DataFrame(
            [
                {
                    "panel": setting, "method": row.label, "rate": rate, "seeds": len(group.runs),
                    "missed": sum(group.missed.values()),
                    **_spread(group.interval(self.metric), self.metric),
                    **_spread(group.interval("consensus_distance"), "consensus_distance"),
                }
                for setting, row in tuned
                for rate, group in row.by_rate.items()
            ]
        )  # fmt: skip


def _spread(found: Interval | None, name: str) -> dict[str, float | None]:
    return {name: found.mean if found else None, f"{name}_half_width": found.half_width if found else None}
