"""Run all published rows that exist at a scale, several at once, and show the tables.

python -m scripts.reproduce scale=tiny seeds=3
python -m scripts.reproduce bias                # [L]'s figure 2 as a picture, and the tables of biases

Started again, it leaves out what is finished and continues what was stopped. A run that fails is named at the end, and
the others go on; the exit status is then 1.
"""

from dataclasses import dataclass

from decent_core.config.command_line import choose_verb, options, run_main
from decent_core.report.run_tables import RunOptions, run_tables
from decent_core.tables.show_plan import PlanOptions, show_plan


@dataclass(frozen=True)
class Options:
    """What is run, and where the runs and the results go."""

    scale: str = "tiny"
    seeds: int = 1  # seeds 1 to this
    experiments: str = "*"  # tables, rows or patterns of them, with spaces between them
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
    if chosen.jobs == 0:
        raise ValueError("jobs=0: at least 1 run at once is needed")
    given = {key: value for key, value in vars(chosen).items() if key != "experiments"}
    return run_tables(RunOptions(table=chosen.experiments, **given))


def explain_paper(chosen: Options) -> None:
    """A run at scale=paper takes a cluster: show what all of them cost, write the jobs file, say how to go on."""
    show_plan(PlanOptions(chosen.experiments, seeds=chosen.seeds, out=f"{chosen.runs}/paper-jobs.txt"))
    print(
        "\nA run of scale=paper takes a cluster of GPUs (docs/cluster.md). Submit a table's to Slurm, or look first:\n"
        f"  make submit TABLE=p/gpt2 SCALE=paper SEEDS={chosen.seeds} CLUSTER=example DRY=1\n"
        "or start a line of the jobs file on as many GPUs as it has workers:\n"
        "  torchrun --nnodes=4 --nproc-per-node=4 ... -m scripts.train LINE"
    )


if __name__ == "__main__":
    run_main(main)
