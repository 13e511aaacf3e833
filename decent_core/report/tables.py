"""Tables from compared records, one an item and scale: cells and Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from decent_core.config.table_file import load_table, table_names
from decent_core.records.identity import item_of
from decent_core.records.published import Published, published_value
from decent_core.report import compare
from decent_core.report.compare import Row
from decent_core.report.formats import NOT_RUN, NOTHING, markdown_table, number
from decent_core.report.intervals import Interval, interval
from decent_core.report.notes import are_single, metric_label, notes_on, outputs

MIB = 2**20


@dataclass(frozen=True)
class Report:
    """The rows of one item at one scale, or of other runs of a task, beside what was published for them."""

    item: str  # empty for runs that belong to none
    task: str
    scale: str
    rows: list[Row]
    base: Row | None  # the row that differences are taken to
    published: Sequence[Published]
    not_run: Sequence[str]  # the item's experiments without a record at this scale
    name: str  # of its files; no other report has it

    @property
    def metric(self) -> str:
        return self.rows[0].metric

    @property
    def title(self) -> str:
        """What it is, the scale, and the sizes that all rows share."""
        config = [row.first.config for row in self.rows]
        sizes = [
            (f"{config[0]['world_size']} workers", [c["world_size"] for c in config]),
            (f"nodes of {config[0]['local_size']}", [c["local_size"] for c in config]),
            (f"{config[0]['trainer']['steps']} steps", [c["trainer"]["steps"] for c in config]),
        ]
        shared = [text for text, values in sizes if values[0] is not None and all(v == values[0] for v in values)]
        return f"{self.name_of_item}, here at scale {self.scale}: {', '.join(shared)}"

    @property
    def name_of_item(self) -> str:
        """The table's title; for other runs, the task."""
        return load_table(self.item).title if self.item in table_names() else self.item or self.task

    def further_metrics(self) -> list[str]:
        """Metrics beside the primary one for which the item's rows have published values, such as BLEU."""
        names = dict.fromkeys(p.metric for p in self.published if self.item and item_of(p.experiment) == self.item)
        return [name for name in names if name != self.metric and any(len(row.by_seed(name)) for row in self.rows)]

    @property
    def target(self) -> float | None:
        """The value of the metric to which time is taken; None unless all rows have the same."""
        targets = {row.first.config.get("target") for row in self.rows}
        return targets.pop() if len(targets) == 1 else None

    @property
    def timed(self) -> bool:
        """Whether seconds of these runs say something about time: workers were processes of their own."""
        return all(row.first.engine == "distributed" for row in self.rows)

    def header(self) -> list[str]:
        """Column names; the first column is text, the others are numbers."""
        return [
            "run",
            "seeds",
            f"{metric_label(self.metric)} ({self.scale})",
            "difference to All-Reduce",
            "published",
            *(title for name in self.further_metrics() for title in (name, f"{name}, published")),
            "local models",
            "consensus distance",
            "MiB sent a step",
            "training seconds",
            *(["speed-up"] if self.timed else []),
            *([f"steps to {self.target:g}"] if self.target is not None else []),
            *([f"seconds to {self.target:g}"] if self.target is not None and self.timed else []),
        ]

    def cells(self) -> list[list[str]]:
        """The table's body as text; the item's rows that were not run come last."""
        return [*map(self._ran, self.rows), *map(self._not_run, self.not_run)]

    def _ran(self, row: Row) -> list[str]:
        return [
            row.label,
            _seeds(row),
            number(row.interval(self.metric), 4),
            "baseline" if row is self.base else self._difference(row),
            self._published(row.first.experiment, self.metric),
            *(cell for name in self.further_metrics() for cell in self._further(row, name)),
            number(row.interval(f"local_{self.metric}"), 4),
            number(row.interval("consensus_distance"), 3),
            number(row.interval("bytes_sent_per_step"), 2, MIB),
            number(row.interval("train_seconds"), 1),
            *([self._speed_up(row)] if self.timed else []),
            *([_to_target(row, "step", 0)] if self.target is not None else []),
            *([_to_target(row, "seconds", 1)] if self.target is not None and self.timed else []),
        ]

    def _not_run(self, experiment: str) -> list[str]:
        further = (c for name in self.further_metrics() for c in (NOTHING, self._published(experiment, name)))
        cells = [experiment.rpartition("/")[2], NOT_RUN, NOTHING, NOTHING, self._published(experiment, self.metric)]
        cells += further
        return cells + [NOTHING] * (len(self.header()) - len(cells))

    def _published(self, experiment: str | None, metric: str) -> str:
        entry = published_value(self.published, experiment, metric)
        if entry is None or entry.value is None:
            return NOTHING
        return f"{entry.value:g}" + (f" ± {entry.plus_minus:g}" if entry.plus_minus is not None else "")

    def _speed_up(self, row: Row) -> str:
        """The baseline's training seconds over the row's, paired by seed."""
        return NOTHING if self.base is None else number(compare.ratio(self.base, row, "train_seconds"), 2)

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
        return f"**{self.title}**\n\n{table}\n\n{notes}\n{outputs(self.rows)}"

    def _further(self, row: Row, name: str) -> tuple[str, str]:
        return number(row.interval(name), 4), self._published(row.first.experiment, name)

    def _difference(self, row: Row) -> str:
        found = self.difference(row)
        if found is None:
            return NOTHING
        if found.half_width is None:
            return f"{found.mean:+.4f}" + ("" if are_single(self.rows) else " (single run)")
        seeds = "" if found.n == len(row.runs) else f" ({found.n} seeds)"
        return f"{found.mean:+.4f} ± {found.half_width:.4f}{seeds}"


def _seeds(row: Row) -> str:
    missed = [f"{count} {status}" for status, count in sorted(row.missed.items())]
    return " + ".join([str(len(row.runs)), *missed])


def _to_target(row: Row, axis: str, digits: int) -> str:
    """Steps or seconds to the target over the runs that reached it, and how many did not."""
    reached, missed = compare.to_target(row)
    if not reached:
        return "not reached" if missed else NOTHING
    cell = number(interval([point[axis] for point in reached]), digits)
    return f"{cell} ({missed} not reached)" if missed else cell
