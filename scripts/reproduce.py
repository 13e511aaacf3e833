"""Run all experiments that exist at a scale, several at once, and show the table.

python -m scripts.reproduce scale=tiny seeds=3
python -m scripts.reproduce bias                # [L]'s figure 2 as a picture, and the tables of biases

Started again, it leaves out what is finished and continues what was stopped. A run that fails is named at the end, and
the others go on; the exit status is then 1.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.config.command_line import choose_verb, options, run_main
from decent_core.records.record import read
from decent_core.report.formats import show
from decent_core.report.page import write_page
from decent_core.system.files import write_atomically
from decent_core.tables.pool import Child, run_children
from decent_core.tables.registry import planned
from scripts.plan import main as list_runs
from scripts.report import publish


@dataclass(frozen=True)
class Options:
    """What is run, and where the runs and the results go."""

    scale: str = "tiny"
    seeds: int = 1  # seeds 1 to this
    experiments: str = "*"  # patterns of names, as in conf/experiment, with spaces between them
    jobs: int | None = None  # runs at once, one thread each; null: one a core
    runs: str = "runs/reproduce"
    results: str = "results/local"
    keep: str | None = None  # folder into which the records are copied, for committing


def main(arguments: list[str]) -> int:
    """Run what is missing, then write and show tables and curves."""
    verb, rest = choose_verb(arguments, ("experiments", "bias"))
    if verb == "bias":
        from tasks.regression import bias_report  # imports torch

        return bias_report.run(options(bias_report.Options, rest, __doc__ or ""))
    chosen = options(Options, rest, __doc__ or "")
    if chosen.scale == "paper":
        explain_paper(chosen)
        return 0
    rows = plan(chosen)
    failures = run_children(rows, (os.cpu_count() or 1) if chosen.jobs is None else chosen.jobs)
    console = Console()
    results = Path(chosen.results)
    reports = publish([read(row.record) for row in rows if row.outcome()], results, results)
    for report in reports:
        show(report, console)
        console.print(f"Written: {results / report.name}.md, .tex, .csv and .png", soft_wrap=True, highlight=False)
    write_page(results / "report.html", reports, results)
    console.print(f"Written: {results}/report.html, all of it in one page", soft_wrap=True, highlight=False)
    for row in rows if chosen.keep else []:
        if row.outcome() in ("ok", "diverged"):
            write_atomically(Path(str(chosen.keep)) / chosen.scale / row.name / "record.json", row.record.read_bytes())
    for row in failures:
        console.print(f"\n{row.name} failed; the end of {row.log}:", style="bold red", soft_wrap=True)
        console.print(row.log_tail(), markup=False, highlight=False, soft_wrap=True)
    return 1 if failures else 0


def explain_paper(chosen: Options) -> None:
    """A run at scale=paper takes a cluster: show what all of them cost, write the jobs file, say how to go on."""
    jobs = f"{chosen.runs}/paper-jobs.txt"
    list_runs([f"item={chosen.experiments}", "scale=paper", f"seeds={chosen.seeds}", f"out={jobs}"])
    print(
        "\nA run of scale=paper takes a cluster of GPUs (docs/cluster.md). Submit an item's to Slurm, or look first:\n"
        f"  make submit ITEM=p-gpt2 SCALE=paper SEEDS={chosen.seeds} CLUSTER=example DRY=1\n"
        "or start a line of the jobs file on as many GPUs as it has workers:\n"
        "  torchrun --nnodes=4 --nproc-per-node=4 ... -m scripts.train LINE"
    )


def plan(chosen: Options) -> list[Child]:
    """All chosen experiments with a recipe at the scale, one run a seed; ValueError if there is none."""
    found = planned(chosen.experiments, chosen.scale, chosen.seeds, Path(chosen.runs))
    if not found.runs:
        raise ValueError(f"experiments={chosen.experiments}: {'; '.join(sorted(set(found.left_out.values())))}")
    return list(found.runs)


if __name__ == "__main__":
    run_main(main)
