"""Runs tables on this machine, and reports on what they have given."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.console import Console

from decent_core.config.table_file import TableFile
from decent_core.records import archive
from decent_core.records.lines import Run
from decent_core.records.record import Record, read
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
    keep: str | None = None  # folder of tables of runs, such as results, to which the finished ones are added
    readme: str | None = None  # a text that has a place for the table


def run_tables(chosen: RunOptions) -> int:
    """Run what is missing, then write and show tables and figures; returns the exit status."""
    found = plan(chosen.table, chosen.scale, chosen.seeds, Path(chosen.runs))
    if not found.cells:
        raise ValueError(f"table={chosen.table}: {'; '.join(sorted(set(found.left_out.values())))}")
    failures = run_all(found.runs, cores() if chosen.jobs is None else chosen.jobs) if chosen.jobs != 0 else []
    console = Console()
    plain: list[Record] = []
    for table, cells in groupby(found.cells, lambda cell: cell.table):
        records = _records(table, list(cells), None if chosen.keep is None else Path(chosen.keep))
        if table.compares_rates:
            folder, readme = Path(chosen.keep or chosen.results), chosen.readme
            publish_comparison(Table(table, records), folder, None if readme is None else Path(readme), console)
        else:
            plain += [record for _, record in records]
    if plain:
        show_all(plain, Path(chosen.results), console)
    name_failures(failures, console)
    return 1 if failures else 0


def _records(table: TableFile, cells: Sequence[Cell], keep: Path | None) -> list[tuple[Cell, Record]]:
    """Runs with their records, from their folders and from what is kept, to which the finished ones are added."""
    kept: dict[str, Record] = {}
    if keep is not None:
        folder, done = keep / table.name, [cell for cell in cells if cell.run.finished()]
        if done:
            archive.keep([Run(cell.row.key, cell.setting.key, read(cell.run.record)) for cell in done], folder)
        if (folder / archive.RUNS).exists():
            kept = {run.record.config_hash: run.record for run in archive.unpack(folder)}
    found = ((cell, _record(cell.run) or kept.get(cell.run.config_hash)) for cell in cells)
    return [(cell, record) for cell, record in found if record is not None]


def _record(run: PlannedRun) -> Record | None:
    """The record of a run that has ended by itself."""
    return read(run.record) if run.outcome() not in (None, "preempted") else None


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
