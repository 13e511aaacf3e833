"""One worker of scripts.bench: steps of all cells in turns, or the peak memory of one cell."""

import resource
import sys
from typing import Any

import torch.distributed as dist

from decent_core.config.command_line import run_main
from decent_core.lab.contestants import WARM_UP_STEPS, Cell, Steps, build_cell, parameter_bytes, run_rank, timed_steps
from decent_core.lab.loads import make_load
from decent_core.lab.measure import gather
from decent_core.lab.namespaces import set_rate
from decent_core.lab.pacing import bytes_a_second, pace_connections
from decent_core.lab.report import LOOPBACK

MEMORY_STEPS = 4
LOCAL_SIZE = 2  # for the groups of a topology; every worker has a link of its own all the same


def main(arguments: list[str]) -> None:
    """Measure what the plan says."""
    run_rank(arguments, lambda plan, rank: {"memory": _memory, "times": _times}[plan["what"]](plan, rank))


def _times(plan: dict[str, Any], rank: int) -> list[dict[str, Any]]:
    """Seconds a step of every cell, at every rate, in every repeat."""
    load = make_load(plan, rank, dist.get_world_size())
    cells: dict[Cell, Steps] = {(n, t): build_cell((n, t), load, LOCAL_SIZE, plan["bucket"]) for n, t in plan["cells"]}
    world = {
        "workers": dist.get_world_size(),
        "local_size": LOCAL_SIZE,
        "parameter_bytes": parameter_bytes(load.build_model()),
    }
    found: list[dict[str, Any]] = []
    for steps in cells.values():
        timed_steps(steps, WARM_UP_STEPS)
    for rate in plan["rates"]:
        if not plan["hosts"] and rate != LOOPBACK:
            pace_connections(bytes_a_second(rate))
        elif plan["hosts"] and rank == 0:
            set_rate(plan["hosts"], rate)
        dist.barrier()
        for repeat in range(plan["repeats"]):
            order = list(cells.items())
            for (name, topology), steps in order if repeat % 2 == 0 else reversed(order):  # a drift hits all alike
                identity = {"load": plan["load"], "rate": rate, "repeat": repeat, "method": name, "topology": topology}
                found.append({**identity, **world, **timed_steps(steps, plan["steps"])})
    return found


def _memory(plan: dict[str, Any], rank: int) -> list[dict[str, Any]]:
    """MiB by which this cell's training has raised the peak memory of each worker's process."""
    load = make_load(plan, rank, dist.get_world_size())
    before = _peak_mib()
    ((name, topology),) = plan["cells"]
    steps = build_cell((name, topology), load, LOCAL_SIZE, plan["bucket"])
    for number in range(MEMORY_STEPS):
        steps.step(ahead=number + 1 < MEMORY_STEPS)
    steps.drain()
    peaks = gather(_peak_mib() - before)
    mib = parameter_bytes(load.build_model()) / 2**20
    return [{"method": name, "topology": topology, "parameters_mib": mib, "peak_mib": peaks}]


def _peak_mib() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


if __name__ == "__main__":
    run_main(main)
