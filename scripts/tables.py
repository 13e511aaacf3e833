"""Tables of a task at a scale, from compared records: Markdown, terminal, data frame."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas
from rich.console import Console

from decent_core import compare
from decent_core.compare import Interval, Published, Row
from scripts.notes import are_single, metric_label, notes_on

MIB = 2**20
NOTHING = "–"


@dataclass(frozen=True)
class Report:
    """The rows of one task at one scale beside what was published for them."""

    task: str
    scale: str
    rows: list[Row]
    base: Row | None  # the row that differences are taken to
    published: Sequence[Published]

    @property
    def name(self) -> str:
        return f"{self.task}-{self.scale}"

    @property
    def metric(self) -> str:
        return self.rows[0].metric

    @property
    def title(self) -> str:
        """Task and scale, and the sizes that all rows share."""
        config = [row.first.config for row in self.rows]
        sizes = [
            (f"{config[0]['world_size']} workers", [c["world_size"] for c in config]),
            (f"nodes of {config[0]['local_size']}", [c["local_size"] for c in config]),
            (f"{config[0]['trainer']['steps']} steps", [c["trainer"]["steps"] for c in config]),
        ]
        shared = [text for text, values in sizes if values[0] is not None and all(v == values[0] for v in values)]
        return f"{self.task}, scale {self.scale}: {', '.join(shared)}"

    def further_metrics(self) -> list[str]:
        """Metrics beside the primary one for which the task's rows have published values, such as BLEU."""
        task = self.rows[0].first.task
        names = dict.fromkeys(entry.metric for entry in self.published if entry.experiment and entry.task == task)
        return [n for n in names if n != self.metric and any(n in run.metrics for row in self.rows for run in row.runs)]

    def header(self) -> list[str]:
        """Column names; the first column is text, the others are numbers."""
        return [
            "run",
            "seeds",
            metric_label(self.metric),
            "local models",
            "consensus distance",
            "MiB sent a step",
            "training seconds",
            "difference to All-Reduce",
            "published",
            *(title for name in self.further_metrics() for title in (name, f"{name}, published")),
        ]

    def cells(self) -> list[list[str]]:
        """The table's body as text."""
        return [
            [
                row.label,
                _seeds(row),
                number(row.interval(self.metric), 4),
                number(row.interval(f"local_{self.metric}"), 4),
                number(row.interval("consensus_distance"), 3),
                number(row.interval("bytes_sent_per_step"), 2, MIB),
                number(row.interval("train_seconds"), 1),
                "baseline" if row is self.base else self._difference(row),
                _published(compare.published_value(self.published, row, self.metric)),
                *(cell for name in self.further_metrics() for cell in self._further(row, name)),
            ]
            for row in self.rows
        ]

    def difference(self, row: Row) -> Interval | None:
        """The row's primary metric less the baseline's."""
        return None if self.base in (None, row) else compare.difference(row, self.base, self.metric)

    def notes(self) -> list[str]:
        """What a reader must know to read the numbers."""
        return notes_on(self.rows, self.published)

    def markdown(self) -> str:
        """Title, table and notes."""
        table = markdown_table(self.header(), self.cells())
        notes = "\n".join(f"- {note}" for note in self.notes())
        return f"**{self.title}**\n\n{table}\n\n{notes}\n{self._outputs()}"

    def _further(self, row: Row, name: str) -> tuple[str, str]:
        return number(row.interval(name), 4), _published(compare.published_value(self.published, row, name))

    def _outputs(self) -> str:
        """Outputs to look at, of the first run that has some."""
        run = next((run for row in self.rows for run in row.runs if run.outputs), None)
        if run is None:
            return ""
        names = list(run.outputs[0])
        lines = [names, ["---"] * len(names), *([output[name] for name in names] for output in run.outputs)]
        table = "\n".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |" for line in lines)
        return f"\nOutputs of {run.run_id}:\n\n{table}\n"

    def show(self, console: Console) -> None:
        """Title, table and notes on a terminal; columns that say nothing are left out, none is ever cut."""
        columns = [(name, cells) for name, *cells in zip(self.header(), *self.cells(), strict=True)]
        lines = [_aligned(name, cells) for name, cells in columns if set(cells) not in ({"1"}, {NOTHING})]
        depth = max(len(column) for column in lines) - len(self.rows)
        padded = [[" " * len(column[0])] * (depth + len(self.rows) - len(column)) + column for column in lines]
        gap = "  " if sum(len(column[0]) + 2 for column in lines) - 2 <= console.width else " "
        console.print(self.title, style="bold", highlight=False)
        for number, line in enumerate(zip(*padded, strict=True)):
            console.print(gap.join(line), style="dim" if number < depth else "", soft_wrap=True, highlight=False)
        for note in self.notes():
            console.print(f"- {note}", highlight=False, markup=False)

    def frame(self) -> pandas.DataFrame:
        """All numbers of the table unrounded, a line a row."""
        return pandas.DataFrame([self._values(row) for row in self.rows])

    def _values(self, row: Row) -> dict[str, Any]:
        first = row.first
        keys = ("task", "scale", "experiment", "method", "optimizer", "topology", "engine", "world_size", "source")
        values = {"run": row.label, **{key: getattr(first, key) for key in keys}, "seeds": len(row.runs)}
        values |= {status: row.missed.get(status, 0) for status in ("diverged", "failed", "preempted")}
        intervals = {
            name: row.interval(name)
            for name in (
                self.metric,
                f"local_{self.metric}",
                "consensus_distance",
                "bytes_sent_per_step",
                "train_seconds",
                *self.further_metrics(),
            )
        } | {"difference_to_allreduce": self.difference(row)}
        for name, found in intervals.items():
            values[name] = found.mean if found else None
            values[f"{name}_half_width"] = found.half_width if found else None
        published = compare.published_value(self.published, row, self.metric)
        return values | {"published": published.value if published else None}

    def _difference(self, row: Row) -> str:
        found = self.difference(row)
        if found is None:
            return NOTHING
        if found.half_width is None:
            return f"{found.mean:+.4f}" + ("" if are_single(self.rows) else " (single run)")
        seeds = "" if found.n == len(row.runs) else f" ({found.n} seeds)"
        return f"{found.mean:+.4f} ± {found.half_width:.4f}{seeds}"


def make_reports(rows: Sequence[Row], published: Sequence[Published]) -> list[Report]:
    """A report for each task and scale among rows in the order of `compare`."""
    groups = groupby(rows, key=lambda row: (row.first.task, row.first.scale))
    return [
        Report(task, scale, rows, compare.baseline(rows), published)
        for (task, scale), rows in ((key, list(group)) for key, group in groups)
    ]


def _aligned(name: str, cells: Sequence[str]) -> list[str]:
    """Header, over as many lines as it needs, and cells, all of one width: the first column to the left."""
    width = max(6, *(len(text) for text in (*name.split(), *cells)))
    header = textwrap.wrap(name, width, break_on_hyphens=False)
    return [text.ljust(width) if name == "run" else text.rjust(width) for text in (*header, *cells)]


def _seeds(row: Row) -> str:
    missed = [f"{count} {status}" for status, count in sorted(row.missed.items())]
    return " + ".join([str(len(row.runs)), *missed])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(found: Interval | None, digits: int, unit: float = 1) -> str:
    """Mean and half width in `unit`."""
    if found is None:
        return NOTHING
    mean = f"{found.mean / unit:.{digits}f}"
    return mean if not found.half_width else f"{mean} ± {found.half_width / unit:.{digits}f}"


def _published(entry: Published | None) -> str:
    if entry is None or entry.value is None:
        return NOTHING
    return f"{entry.value:g}" + (f" ± {entry.plus_minus:g}" if entry.plus_minus is not None else "")
