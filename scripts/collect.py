"""Report on the runs of a jobs file: tables and curves of those with a record, and by name all that are not finished.

    python -m scripts.collect jobs=runs/slurm/jobs/p-table2-paper-1a2b3c4d.txt results=runs/slurm/results/p-table2-paper

slurm/collect.sbatch runs it behind the job arrays. Exit status 0: all runs are finished; 1: some are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.config.command_line import options, run_main
from decent_core.records.record import read
from decent_core.report.formats import show
from decent_core.report.page import write_page
from decent_core.system.files import write_atomically
from decent_core.tables.jobs import read_jobs
from decent_core.tables.pool import Child
from scripts.report import publish


@dataclass(frozen=True)
class Options:
    """Whose runs, and where the results go."""

    jobs: str
    results: str


def main(arguments: list[str]) -> int:
    """Write and show the tables, then name the runs that are not finished."""
    chosen = options(Options, arguments, __doc__ or "")
    runs = read_jobs(Path(chosen.jobs))
    console, results = Console(highlight=False), Path(chosen.results)
    reports = publish([read(run.record) for run in runs if run.outcome()], results, results)
    for report in reports:
        show(report, console)
    if reports:
        write_page(results / "report.html", reports, results)
    missing = unfinished(runs)
    text = "\n".join([f"{len(runs) - len(missing)} of {len(runs)} runs are finished", *missing])
    write_atomically(results / "runs.txt", f"{text}\n")
    console.print(text, markup=False, soft_wrap=True)
    console.print(f"Written: {results}", soft_wrap=True)
    return 1 if missing else 0


def unfinished(runs: Sequence[Child]) -> list[str]:
    """A line for each run that has no result: its line in the jobs file, its name and what is known about it."""
    lines = []
    for number, run in enumerate(runs, 1):
        if run.finished():
            continue
        outcome = run.outcome()
        why = f"{outcome}: {read(run.record).message}" if outcome else f"no record in {run.folder}"
        lines.append(f"line {number}, {run.name}: {why}")
    return lines


if __name__ == "__main__":
    run_main(main)
