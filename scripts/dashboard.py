"""Build a W&B workspace and a report for a project of runs (logger=wandb), from code.

    python -m scripts.dashboard entity=TEAM project=decent-bench
    python -m scripts.dashboard entity=TEAM project=decent-bench out=dashboard.json

The first adds both to the project, which needs `wandb login`, and prints their addresses; each call adds new ones. With
out=FILE nothing is sent: the specifications of both are written as JSON, without a server or an account.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decent_core.config.command_line import options, run_main
from decent_core.config.task_package import all_task_packages
from decent_core.system.files import write_atomically
from decent_core.tracking import workspace


@dataclass(frozen=True)
class Options:
    """What the command line gives."""

    entity: str  # a user or a team
    project: str = "decent-bench"
    out: Path | None = None


def main(arguments: Sequence[str]) -> None:
    """Build both; send them, or write them to a file."""
    given = options(Options, arguments, __doc__ or "")
    workspace.check_installed()
    board, report = workspace.build(given.entity, given.project, [package.PLOTS for package in all_task_packages()])
    if given.out is None:
        print(*workspace.send(board, report), sep="\n")
        return
    specs = {"workspace": workspace.as_plain(board), "report": workspace.as_plain(report)}
    write_atomically(given.out, json.dumps(specs, indent=1) + "\n")
    print(given.out)


if __name__ == "__main__":
    run_main(main, at_once=True)  # W&B's service tries an unreachable server again and again, and its end waits for it
