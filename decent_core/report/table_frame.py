"""All numbers of a table, unrounded, as a data frame."""

from typing import Any

import pandas

from decent_core.records.published import published_value
from decent_core.report import compare
from decent_core.report.compare import Row
from decent_core.report.intervals import interval
from decent_core.report.tables import Report


def frame(report: Report) -> pandas.DataFrame:
    """All numbers of the table unrounded, a line a row."""
    return pandas.DataFrame([_values(report, row) for row in report.rows])


def _values(report: Report, row: Row) -> dict[str, Any]:
    first = row.first
    keys = ("task", "scale", "experiment", "method", "optimizer", "topology", "engine", "world_size", "source")
    values = {"run": row.label, **{key: getattr(first, key) for key in keys}, "seeds": len(row.runs)}
    values |= {status: row.missed.get(status, 0) for status in ("diverged", "failed", "preempted")}
    intervals = {
        name: row.interval(name)
        for name in (
            report.metric,
            f"local_{report.metric}",
            "consensus_distance",
            "bytes_sent_per_step",
            "train_seconds",
            *report.further_metrics(),
        )
    } | {"difference_to_allreduce": report.difference(row)}
    for name, found in intervals.items():
        values[name] = found.mean if found else None
        values[f"{name}_half_width"] = found.half_width if found else None
    reached, missed = compare.to_target(row)
    values |= {"target": report.target, "reached_target": len(reached), "missed_target": missed}
    steps = interval([point["step"] for point in reached])
    values |= {"steps_to_target": steps.mean if steps else None}
    published = published_value(report.published, row.first.experiment, report.metric)
    return values | {"published": published.value if published else None}
