"""Records to rows of a table: means and intervals over seeds, differences to All-Reduce. No torch.

A row is all runs whose configurations differ in nothing but the seed. Intervals are 95 % Student-t intervals of the
mean over seeds; differences are taken seed by seed before they are averaged, so that what a seed does to both cancels.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas

from decent_core.records.identity import WITHOUT_EFFECT, config_hash, item_of
from decent_core.records.record import Record
from decent_core.report.intervals import Interval, interval

#: optimizers of the published baselines: they neither accumulate nor scale layer by layer
PLAIN_OPTIMIZERS = ("sgd", "adam", "adamw")
#: numbers of a record beside its metrics; the first under the name that published tables have for it
FIELDS = {"iteration_ms": "step_ms_p50"} | {
    name: name
    for name in (
        "steps", "samples", "train_seconds", "eval_seconds", "step_ms_p50", "step_ms_p95", "wait_ms_p50",
        "bytes_sent_per_step", "peak_gib", "consensus_distance",
    )
}  # fmt: skip
#: what sets rows apart even where the configurations are the same
NAMED = ["source", "task", "scale", "experiment"]
#: overrides that do not set rows apart
_UNLABELLED = WITHOUT_EFFECT | {"seed"}


@dataclass(frozen=True)
class Row:
    """All runs of one configuration, over its seeds. `runs` are those with status ok, `missed` counts the others."""

    label: str
    runs: tuple[Record, ...]
    missed: Mapping[str, int]
    records: tuple[Record, ...]  # all, of any status

    @property
    def first(self) -> Record:
        """A run that stands for what all runs of the row have in common."""
        return self.records[0]

    @property
    def item(self) -> str:
        """The table or figure of a paper to which the row belongs, as `p/table3`; empty for any other run."""
        return item_of(self.first.experiment or "")

    @property
    def metric(self) -> str:
        """The task's primary metric."""
        return self.first.primary_metric

    @property
    def lower_is_better(self) -> bool:
        """Whether less of the primary metric is better, as the task says; an old record's name has to say it."""
        said = self.first.lower_is_better
        return self.metric.endswith(("loss", "perplexity", "distance")) if said is None else said

    @cached_property
    def values(self) -> pandas.DataFrame:
        """Final metrics and record fields of the finished runs: a line a seed, a column a name."""
        lines = {
            run.seed: {name: getattr(run, field) for name, field in FIELDS.items()} | run.metrics for run in self.runs
        }
        return pandas.DataFrame.from_dict(lines, orient="index", dtype=float)

    def by_seed(self, name: str) -> pandas.Series:
        """Final values of metric or record field `name`, by seed; runs without the value are left out."""
        return self.values[name].dropna() if name in self.values else pandas.Series(dtype=float)

    def interval(self, name: str) -> Interval | None:
        """Mean and interval of metric or record field `name` over the finished runs; None if no run has it."""
        return interval(self.by_seed(name).tolist())


def to_target(row: Row) -> tuple[list[dict[str, float]], int]:
    """Where each finished run first reached its target: points of curves; and how many runs never did.

    Nothing for runs without a target. Time is taken at evaluations: a run may have been there up to one earlier.
    """
    reached, missed = [], 0
    sign = 1 if row.lower_is_better else -1
    for run in row.runs:
        target = run.config.get("target")
        if target is None:
            continue
        values = [(point, point["values"].get(row.metric)) for point in run.curve]
        point = next((point for point, v in values if v is not None and sign * v <= sign * target), None)
        missed += point is None
        reached += [] if point is None else [point]
    return reached, missed


def compare(records: Iterable[Record]) -> list[Row]:
    """Group records into rows, All-Reduce's first.

    Of several records of one configuration and seed the last finished one counts, or else the last one.
    """
    runs = pandas.DataFrame([_line(record) for record in records], columns=[*NAMED, *_COLUMNS])
    latest = runs.sort_values(["finished", "started_at"], kind="stable").drop_duplicates(
        [*NAMED, "config_hash"], keep="last"
    )
    groups = latest.sort_values("seed", kind="stable").groupby([*NAMED, "of_any_seed"], dropna=False, sort=False)
    rows = [make_row(_label(group.record.iloc[0]), group.record) for _, group in groups]
    seen = Counter((row.item, row.first.task, row.first.scale, row.label) for row in rows)
    rows = [
        replace(row, label=f"{row.label} [{row.first.config_hash[:6]}]")
        if seen[row.item, row.first.task, row.first.scale, row.label] > 1
        else row
        for row in rows
    ]
    return sorted(rows, key=_order)


def make_row(label: str, records: Iterable[Record]) -> Row:
    """The row of runs that differ in nothing but the seed; at least one, of any status."""
    group = sorted(records, key=lambda record: record.seed)
    missed = Counter(str(record.status) for record in group if record.status != "ok")
    return Row(label, tuple(record for record in group if record.status == "ok"), missed, tuple(group))


_COLUMNS = ("config_hash", "of_any_seed", "seed", "finished", "started_at", "record")


def _line(record: Record) -> tuple[object, ...]:
    """A run as a line of the frame of runs."""
    return (
        *(getattr(record, name) for name in NAMED),
        record.config_hash,
        config_hash(record.config, WITHOUT_EFFECT | {"seed"}),
        record.seed,
        record.finished,
        record.started_at,
        record,
    )


def _order(row: Row) -> tuple[str, str, str, bool, str, str]:
    """By item, task and scale; All-Reduce first; experiments in alphabetical order, then everything else."""
    run = row.first
    return row.item or "~", run.task, run.scale, run.method != "allreduce", run.experiment or "~", row.label


def baseline(rows: Sequence[Row]) -> Row | None:
    """The All-Reduce row with a plain optimizer, as published; None unless there is exactly one."""
    found = [row for row in rows if row.first.method == "allreduce" and row.first.optimizer in PLAIN_OPTIMIZERS]
    return found[0] if len(found) == 1 else None


def difference(row: Row, base: Row, name: str) -> Interval | None:
    """row - base in metric `name`, averaged over the seeds that both have finished; None if there is no such seed."""
    return interval((row.by_seed(name) - base.by_seed(name)).dropna().tolist())


def ratio(above: Row, below: Row, name: str) -> Interval | None:
    """above / below in metric `name`, averaged over the seeds that both have finished; None if there is none."""
    under = below.by_seed(name)
    return interval((above.by_seed(name) / under[under != 0]).dropna().tolist())


def _label(record: Record) -> str:
    """Experiment, or the choices made, and what the user changed; simulated runs say so."""
    chosen = {"task", "scale", "experiment"}
    name = f"{record.method} + {record.optimizer}"
    name = name if record.method == "allreduce" else f"{name}, {record.topology}"
    if record.experiment:
        name = record.experiment.rpartition("/")[2]
    else:
        chosen |= {"method", "optimizer", "topology"}
    changes = [text for text in record.overrides if text.partition("=")[0] not in _UNLABELLED | chosen]
    parts = [name, *changes] + (["simulated"] if record.source == "simulated" else [])
    return ", ".join(parts)
