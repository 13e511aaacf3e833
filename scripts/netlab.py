"""Run a distributed command on this machine as if it were several nodes with slow links (Linux, root, iproute2).

    python -m scripts.netlab workers=4 nodes=2 rate=100mbit -- \\
        python -m scripts.train task=gpt2 method=awc topology=aer engine=distributed scale=tiny

Every node is a network namespace with a link of this rate, shared by its workers; inside a node nothing is limited.
nodes=workers, the default, gives each worker a link of its own. One process a worker is started with the variables that
torchrun would set; worker 0 prints, the others only to standard error. When one fails, the others are stopped. The exit
status is that of the first that failed. What a killed lab leaves behind, the next one removes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from decent_core.config.command_line import options, run_main
from decent_core.lab.launch import run_workers
from decent_core.lab.namespaces import MOST_HOSTS, check_possible, check_rate, hosts
from decent_core.system.processes import stop_signals_interrupt


@dataclass(frozen=True)
class Options:
    """The nodes and their links."""

    workers: int
    rate: str  # as tc reads it, of each node's link in each direction
    nodes: int | None = None  # null: as many as workers

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers={self.workers}: must be at least 1")
        nodes = self.workers if self.nodes is None else self.nodes
        if not 1 <= nodes <= MOST_HOSTS or self.workers % nodes:
            raise ValueError(f"nodes={nodes}: must divide workers={self.workers} and be at most {MOST_HOSTS}")
        check_rate("rate", self.rate)


def main(arguments: Sequence[str]) -> int:
    """Build the lab, run the command in it, take the lab down; returns the exit status."""
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    own, command = arguments[:at], arguments[at + 1 :]
    given = options(Options, own, __doc__ or "")
    if not command:
        raise ValueError("no command: give it after --, as in -- python -m scripts.train ... engine=distributed")
    check_possible()
    nodes = given.nodes or given.workers
    with stop_signals_interrupt(), hosts(nodes, given.rate) as names:
        return run_workers(names, given.workers // nodes, command)


if __name__ == "__main__":
    run_main(main)
