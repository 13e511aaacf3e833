"""Train one configuration and write its record.

    python -m scripts.train task=gpt2 optimizer=accum_adamw method=awc topology=aer world_size=8 local_size=4
    torchrun --nproc-per-node=4 -m scripts.train task=gpt2 method=awc topology=ring engine=distributed

The last line of standard output is the record's path. Exit status: 0 finished, 1 failed, 2 a mistake in the
configuration, 3 the loss diverged, 75 stopped by a signal after saving a checkpoint (start again to continue).

With --status-in-record the exit status is 0 for 3 and 75 too: the record has the status. Slurm's jobs are started so
(slurm/node.sh), for with another status torchrun and srun would kill the ranks that are still writing.
"""

import sys
from collections.abc import Sequence

from decent_core.config.command_line import run_main
from decent_core.config.help import show_help
from decent_core.config.load import load
from decent_core.system.signals import StopRequest

EXIT_STATUS = {"ok": 0, "failed": 1, "diverged": 3, "preempted": 75}
IN_RECORD = "--status-in-record"


def main(arguments: Sequence[str]) -> int:
    """One training run; returns the exit status."""
    overrides = [text for text in arguments if text != IN_RECORD]
    if show_help(overrides, __doc__):
        return 0
    stop = StopRequest().listen()
    config = load(overrides)
    from decent_core.training.run import Run  # torch is imported only for a configuration that is right

    with Run(config, stop) as run:
        record, path = run.train()
    if run.is_main:
        if record.message:
            print(f"{record.status}: {record.message}", file=sys.stderr)
        print(path)
    return 0 if IN_RECORD in arguments and record.status != "failed" else EXIT_STATUS[record.status]


if __name__ == "__main__":
    run_main(main)
