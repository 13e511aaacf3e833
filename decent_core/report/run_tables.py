"""Runs tables on this machine, and reports on what they have given."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.records.archive import RUNS, keep, unpack
from decent_core.records.lines import Run
from decent_core.records.record import read
from decent_core.report.publish import Places, publish_all
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
    console, results = Console(), Path(chosen.results)
    keep_in, readme = (None if path is None else Path(path) for path in (chosen.keep, chosen.readme))
    compared, others = _runs(found.cells, keep_in, True), _runs(found.cells, keep_in, False)
    publish_all(compared, [], Places.of(keep_in or results, readme), console)
    publish_all(others, [], Places.of(results), console)
    name_failures(failures, console)
    return 1 if failures else 0


def _runs(cells: Sequence[Cell], keep_in: Path | None, compares_rates: bool) -> dict[str, list[Run]]:
    """The runs of the tables that compare learning rates, or of those that do not; finished ones are kept."""
    tables = {cell.table.name: cell.table for cell in cells if cell.table.compares_rates == compares_rates}
    found: dict[str, list[Run]] = {}
    for table in tables.values():
        own = [cell for cell in cells if cell.table.name == table.name]
        kept = {} if keep_in is None else _keep(own, keep_in / table.name)
        runs = [_run(cell) or kept.get(cell.run.config_hash) for cell in own]
        found[table.name] = [run for run in runs if run is not None]
        if compares_rates and not found[table.name]:
            raise ValueError(f"table={table.name}: no run is finished; leave out jobs=0 to run it")
    return found


def _run(cell: Cell) -> Run | None:
    """A run that has ended by itself."""
    if cell.run.outcome() in (None, "preempted"):
        return None
    return Run(cell.row.key, cell.setting.key, read(cell.run.record))


def _keep(cells: Sequence[Cell], folder: Path) -> dict[str, Run]:
    """Add the finished runs to those in a folder; returns all that are there, by their configuration."""
    if finished := [run for cell in cells if cell.run.finished() and (run := _run(cell)) is not None]:
        keep(finished, folder)
    return {run.record.config_hash: run for run in unpack(folder)} if (folder / RUNS).exists() else {}


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
    publish_all({}, [read(run.record) for run in runs if run.outcome()], Places.of(results), console)
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
