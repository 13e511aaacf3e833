"""One worker of a bench: measures what the plan, a JSON object, asks for; rank 0 writes the results."""

import json
from typing import Any

import torch
import torch.distributed as dist

from decent_core.config.command_line import run_main
from decent_core.engine.distributed import gather_objects
from decent_core.lab.contestants import (
    TIMEOUT_SECONDS,
    WARM_UP_STEPS,
    Cell,
    Steps,
    build_cell,
    parameter_bytes,
    timed_steps,
)
from decent_core.lab.isolated import Isolated
from decent_core.lab.loads import make_load
from decent_core.lab.namespaces import set_rate
from decent_core.lab.pacing import bytes_a_second, pace_connections
from decent_core.lab.report import LOOPBACK
from decent_core.system.processes import peak_memory_mib
from decent_core.training.launch import find_launch, join

MEMORY_STEPS = 4
LOCAL_SIZE = 2  # for the topology alone; every worker has a link of its own


def main(arguments: list[str]) -> None:
    """Join the other workers, measure, write to the plan's path."""
    plan = json.loads(arguments[0])
    launch = find_launch()
    assert launch is not None
    torch.set_num_threads(1)
    join(launch, TIMEOUT_SECONDS)
    found = {"memory": _memory, "times": _times, "links": _links}[plan["what"]](plan, launch.rank)
    if launch.rank == 0:
        with open(plan["out"], "w") as stream:
            json.dump(found, stream)


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
    before = peak_memory_mib()
    ((name, topology),) = plan["cells"]
    steps = build_cell((name, topology), load, LOCAL_SIZE, plan["bucket"])
    for number in range(MEMORY_STEPS):
        steps.step(ahead=number + 1 < MEMORY_STEPS)
    steps.drain()
    peaks = gather_objects(peak_memory_mib() - before)
    mib = parameter_bytes(load.build_model()) / 2**20
    return [{"method": name, "topology": topology, "parameters_mib": mib, "peak_mib": peaks}]


def _links(plan: dict[str, Any], rank: int) -> list[dict[str, Any]]:
    """Computing and exchanges in isolation, and steps of all cells, at every rate, in every repeat."""
    load = make_load(plan, rank, dist.get_world_size())
    cells = {tuple(cell): build_cell(tuple(cell), load, plan["local_size"], plan["bucket"]) for cell in plan["cells"]}
    isolated = Isolated(plan, load)
    found: list[dict[str, Any]] = [{"message_bytes": isolated.message}]
    for steps in cells.values():
        timed_steps(steps, WARM_UP_STEPS)
    for rate in plan["rates"]:
        if rank == 0:
            set_rate(plan["hosts"], rate)
        dist.barrier()
        for repeat in range(plan["repeats"]):
            found += [{"rate": rate, **entry} for entry in isolated.measure()]
            found += [_steps(plan, rate, repeat, cell, steps) for cell, steps in cells.items()]
    return found


def _steps(plan: dict[str, Any], rate: str, repeat: int, cell: tuple[str, str], steps: Steps) -> dict[str, Any]:
    identity = {"rate": rate, "repeat": repeat, "method": cell[0], "topology": cell[1]}
    return {**identity, **timed_steps(steps, plan["steps"])}


if __name__ == "__main__":
    run_main(main)
