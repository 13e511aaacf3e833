"""Run a study: some methods over a grid of learning rates and seeds, compared at equal and at tuned rates.

    python -m scripts.study name=accumulation
    python -m scripts.study name=decentlam keep=results/studies
    python -m scripts.study name=decentlam keep=results/studies jobs=0 readme=README.md

What is compared stands in conf/study. Started again, it leaves out what is finished and continues the rest. With
`keep`, records, table and figure are kept there for committing; with jobs=0 nothing is run, and table and figure are
made of the records that are there. With `readme`, the study's table at a glance goes where that text has a place for
it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.config.command_line import options, run_main
from decent_core.records.record import read_all
from decent_core.report.readme import fill
from decent_core.report.study_figure import draw
from decent_core.report.study_table import Table
from decent_core.report.study_text import at_a_glance, markdown
from decent_core.system.files import write_atomically
from decent_core.tables.pool import run_children
from decent_core.tables.study import load_study, plan


@dataclass(frozen=True)
class Options:
    """Which study, and where its runs and results go."""

    name: str
    scale: str | None = None  # null: the study's own
    seeds: int | None = None  # seeds 1 to this; null: the study's own number
    jobs: int | None = None  # runs at once, one thread each; null: one a core; 0: run nothing
    runs: str = "runs/study"
    results: str = "results/local"
    keep: str | None = None
    readme: str | None = None


def main(arguments: list[str]) -> int:
    """Run what is missing, then write and show table and figure."""
    chosen = options(Options, arguments, __doc__ or "")
    study = load_study(chosen.name)
    seeds = study.seeds if chosen.seeds is None else chosen.seeds
    cells = plan(study, chosen.scale or study.scale, seeds, Path(chosen.runs) / chosen.name)
    jobs = (os.cpu_count() or 1) if chosen.jobs is None else chosen.jobs
    failures = run_children([cell.run for cell in cells], jobs) if jobs else []
    results = Path(chosen.keep) / chosen.name if chosen.keep else Path(chosen.results)
    if chosen.keep:
        for run in [cell.run for cell in cells if cell.run.finished()]:
            write_atomically(results / "records" / run.folder.name / "record.json", run.record.read_bytes())
    folder = results / "records" if chosen.keep else Path(chosen.runs) / chosen.name
    found = {record.config_hash: record for record in read_all(folder) if record.status != "preempted"}
    table = Table(study, [(cell, found[cell.run.config_hash]) for cell in cells if cell.run.config_hash in found])
    path = results / f"study_{chosen.name}"
    write_atomically(path.with_suffix(".md"), markdown(table))
    write_atomically(path.with_suffix(".csv"), table.frame().to_csv(index=False, lineterminator="\n"))
    draw(table, path.with_suffix(".png"))
    if chosen.readme is not None:
        fill(Path(chosen.readme), {f"study:{chosen.name}": at_a_glance(table)})
    console = Console()
    console.print(markdown(table), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Written: {path}.md, .csv and .png", soft_wrap=True, highlight=False)
    for run in failures:
        console.print(f"{run.name} failed; see {run.log}", style="bold red", soft_wrap=True)
    return 1 if failures else 0


if __name__ == "__main__":
    run_main(main)
