"""Runs tables on this machine, and reports on what they have given."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.records.record import Record, read, read_all
from decent_core.report.publish import publish_comparison, show_all
from decent_core.report.study_table import Table
from decent_core.system.files import write_atomically
from decent_core.tables.jobs import read_jobs
from decent_core.tables.plan import Cell, plan
from decent_core.tables.planned_run import PlannedRun
from decent_core.tables.pool import run_all


@dataclass(frozen=True)
class RunOptions:
    """Which tables, and where their runs and results go."""

    table: str
    scale: str | None = None  # null: the table's own, or else tiny
    seeds: int | None = None  # seeds 1 to this; null: the table's own number
    jobs: int | None = None  # runs at once, one thread each; null: one a core; 0: run nothing, report on what is there
    runs: str = "runs/tables"
    results: str = "results/local"
    keep: str | None = None  # folder into which the records are copied, for committing
    readme: str | None = None  # a text that has a place for the table


def run_tables(chosen: RunOptions) -> int:
    """Run what is missing, then write and show tables and figures; returns the exit status."""
    found = plan(chosen.table, chosen.scale, chosen.seeds, Path(chosen.runs))
    if not found.cells:
        raise ValueError(f"table={chosen.table}: {'; '.join(sorted(set(found.left_out.values())))}")
    jobs = cores() if chosen.jobs is None else chosen.jobs
    failures = run_all(found.runs, jobs) if jobs or chosen.jobs is None else []
    console = Console()
    kept = _keep(found.cells, Path(chosen.keep)) if chosen.keep else {}
    results = Path(chosen.keep or chosen.results)
    readme = None if chosen.readme is None else Path(chosen.readme)
    _report(found.cells, kept, results, readme, console)
    name_failures(failures, console)
    return 1 if failures else 0


def _report(
    cells: Sequence[Cell], kept: dict[str, Record], results: Path, readme: Path | None, console: Console
) -> None:
    """Tables that compare learning rates one by one, and all others together."""
    plain: list[Record] = []
    for table in dict.fromkeys(cell.table.name for cell in cells):
        own = [cell for cell in cells if cell.table.name == table]
        records = [(cell, record) for cell in own if (record := _record(cell.run, kept)) is not None]
        if own[0].rate is None:
            plain += [record for _, record in records]
        else:
            path = results / table / (own[0].table.scale or "tiny")
            publish_comparison(Table(own[0].table, records), path, readme, console)
    if plain:
        show_all(plain, results, console)


def _record(run: PlannedRun, kept: dict[str, Record]) -> Record | None:
    """The record of a run, from its folder or from those that are kept."""
    return read(run.record) if run.outcome() not in (None, "preempted") else kept.get(run.config_hash)


def _keep(cells: Sequence[Cell], folder: Path) -> dict[str, Record]:
    """Copy the records of finished runs; returns all records that are kept, by their configuration."""
    for cell in cells:
        if cell.run.finished():
            copy = folder / cell.table.name / "records" / cell.run.folder.name / "record.json"
            write_atomically(copy, cell.run.record.read_bytes())
    return {record.config_hash: record for record in read_all(folder) if record.status != "preempted"}


def name_failures(failures: Sequence[PlannedRun], console: Console) -> None:
    """Say which runs failed, with the end of what they printed."""
    for run in failures:
        console.print(f"\n{run.name} failed; the end of {run.log}:", style="bold red", soft_wrap=True)
        console.print(run.log_tail(), markup=False, highlight=False, soft_wrap=True)


def cores() -> int:
    """Runs at once, unless told otherwise."""
    return os.cpu_count() or 1


@dataclass(frozen=True)
class ReportOptions:
    """Whose runs, and where the results go."""

    jobs: str  # a jobs file; slurm/collect.sbatch runs this behind the job arrays
    results: str


def report_on_jobs(chosen: ReportOptions) -> int:
    """Write and show the tables of a jobs file, then name the runs that are not finished; status 1 if there are any."""
    runs = read_jobs(Path(chosen.jobs))
    console, results = Console(highlight=False), Path(chosen.results)
    show_all([read(run.record) for run in runs if run.outcome()], results, console)
    missing = unfinished(runs)
    text = "\n".join([f"{len(runs) - len(missing)} of {len(runs)} runs are finished", *missing])
    write_atomically(results / "runs.txt", f"{text}\n")
    console.print(text, markup=False, soft_wrap=True)
    console.print(f"Written: {results}", soft_wrap=True)
    return 1 if missing else 0


def unfinished(runs: Sequence[PlannedRun]) -> list[str]:
    """A line for each run that has no result: its line in the jobs file, its name and what is known about it."""
    lines = []
    for number, run in enumerate(runs, 1):
        if run.finished():
            continue
        outcome = run.outcome()
        why = f"{outcome}: {read(run.record).message}" if outcome else f"no record in {run.folder}"
        lines.append(f"line {number}, {run.name}: {why}")
    return lines
