"""One rank of a Slurm job, as slurm/node.sh starts it: a training run whose orderly ends all have exit status 0.

    torchrun --nproc-per-node=4 -m scripts.slurm_rank experiment=p/gpt2/accum_adamw_aer scale=paper engine=distributed

A run that a signal has stopped, or that diverged, says so in its record, and slurm/array.sbatch reads it there. With an
exit status of its own, torchrun and srun would kill the ranks that are still writing.
"""

from collections.abc import Sequence

from decent_core.config.command_line import run_main
from decent_core.config.help import wanted_help
from scripts import train

ORDERLY = ("ok", "diverged", "preempted")


def main(arguments: Sequence[str]) -> int:
    """One rank of a training run; returns 0 if the run has come to an end of its own, whatever that is."""
    if wanted_help(arguments, __doc__):
        return 0
    status = train.main(arguments)
    return 0 if status in [train.EXIT_STATUS[end] for end in ORDERLY] else status


if __name__ == "__main__":
    run_main(main)
