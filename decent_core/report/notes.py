"""What a reader must know to read a table: how numbers were made, where they come from, what is not known."""

from collections.abc import Sequence

from decent_core.records.published import Published, published_value
from decent_core.records.record import Record
from decent_core.report.compare import Row
from decent_core.report.formats import markdown_table


def notes_on(rows: Sequence[Row], published: Sequence[Published]) -> list[str]:
    """Sentences under the table of rows of one task and scale."""
    return [
        _about_values(rows),
        _about_intervals(rows),
        _about_time(rows),
        *_about_target(rows),
        *_about_published(rows, published),
        *_about_task(rows),
        *origins([record for row in rows for record in row.records]),
    ]


def metric_label(metric: str) -> str:
    """`val_loss` -> `validation loss`."""
    return metric.replace("val_", "validation ").replace("_", " ")


def are_single(rows: Sequence[Row]) -> bool:
    """Whether no row has more than one finished run."""
    return all(len(row.runs) <= 1 for row in rows)


def outputs(rows: Sequence[Row]) -> str:
    """Outputs to look at, of the first run that has some."""
    run = next((run for row in rows for run in row.runs if run.outputs), None)
    if run is None:
        return ""
    names = list(run.outputs[0])
    lines = [[output[name] for name in names] for output in run.outputs]
    table = markdown_table(names, lines, texts=len(names))
    return f"\nOutputs of {run.run_id}:\n\n{table}\n"


def _about_values(rows: Sequence[Row]) -> str:
    return (
        f"{metric_label(rows[0].metric).capitalize()}: of the averaged model, and the mean over the workers' own "
        "models. Consensus distance: root mean square of the workers' distances to their mean. "
        "MiB sent: mean over workers; All-Reduce is counted as a ring."
    )


def _about_intervals(rows: Sequence[Row]) -> str:
    if are_single(rows):
        return "Every row is a single run: a difference comes without an interval and may be chance."
    return "±: half the width of the 95 % Student-t interval over seeds; differences are paired by seed."


def _about_time(rows: Sequence[Row]) -> str:
    note = "Training seconds count training steps alone, not evaluation."
    if any(row.first.engine == "virtual" for row in rows):
        note += " With engine=virtual all workers share one process: the seconds compare arithmetic, not networks."
    return note


def _about_target(rows: Sequence[Row]) -> list[str]:
    if all(row.first.config.get("target") is None for row in rows):
        return []
    return [
        "Steps to a target: to the first evaluation at which the averaged model was there. Targets stand in conf/task."
    ]


def _about_published(rows: Sequence[Row], published: Sequence[Published]) -> list[str]:
    first = rows[0].first
    metrics = {name for row in rows for run in row.runs for name in run.metrics}
    found = [
        published_value(published, row.first.experiment, metric)
        for row in rows
        for metric in sorted({row.metric, *metrics})
    ]
    entries = [entry for entry in found if entry is not None]
    names: dict[str, list[str]] = {}
    for entry in entries:
        if entry.value is None and entry.name not in names.setdefault(entry.note, []):
            names[entry.note].append(entry.name)
    notes = [f"Published, {' and '.join(which)}: {note}." for note, which in names.items()]
    for reference in published:
        if (reference.experiment, reference.task, reference.metric) == ("", first.task, rows[0].metric):
            notes.append(f"Published, not for one of the rows: {reference.value:g}, {reference.note}.")
    if first.scale != "paper" and (notes or entries):
        notes.append(f"Numbers of scale {first.scale} cannot be compared with published ones: other data, other model.")
    return notes


def _about_task(rows: Sequence[Row]) -> list[str]:
    """What the runs' tasks have noted, once."""
    said = dict.fromkeys(f"{name}: {text}." for row in rows for run in row.runs for name, text in run.notes.items())
    return list(said)


def commit_name(commit: str | None, dirty: bool | None) -> str:
    """A commit as notes name it, with what a reader must know of the tree."""
    return f"{(commit or 'unknown')[:10]}{' with uncommitted changes' if dirty else ''}"


def origins(records: Sequence[Record]) -> list[str]:
    """Where the runs were made: a sentence for each device and torch, with all commits."""
    commits: dict[str, set[str]] = {}
    for record in records:
        place = f"{record.device}, torch {record.versions.get('torch', '?')}"
        commits.setdefault(place, set()).add(commit_name(record.git_commit, record.git_dirty))
    return [f"Run with commit {' or '.join(sorted(names))}, {place}." for place, names in sorted(commits.items())]
