"""One worker of scripts.netbench: steps of all cells over a shaped network, and what the prediction is made of."""

import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from decent_core import topology as topologies
from decent_core.config.command_line import run_main
from decent_core.engine.distributed import DistributedWorld
from decent_core.engine.settings import DistributedSettings
from decent_core.lab.contestants import (
    TIMEOUT_SECONDS,
    WARM_UP_STEPS,
    Steps,
    build_cell,
    optimizer,
    parameter_bytes,
    run_rank,
    timed_steps,
)
from decent_core.lab.loads import Load, make_load
from decent_core.lab.measure import Exchange, different_rounds, gather, named, pooled, timed
from decent_core.lab.namespaces import set_rate
from decent_core.runtime.exchanges import exchange_keys

SAMPLES = 2  # of each exchange in isolation, in each repeat


def main(arguments: list[str]) -> None:
    """Measure all cells of the plan."""
    run_rank(arguments, measure)


def measure(plan: dict[str, Any], rank: int) -> list[dict[str, Any]]:
    """Computing, exchanges and steps of all cells, at every rate, in every repeat."""
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


class Isolated:
    """Computing and exchanges by themselves: all parameters in one exchange, and one bucket of them."""

    def __init__(self, plan: dict[str, Any], load: Load):
        settings = DistributedSettings("distributed", TIMEOUT_SECONDS, plan["bucket"] / 2**20, False)
        self.load, self.model = load, load.build_model()
        self.optimizer = optimizer(self.model.parameters())
        self.message = parameter_bytes(self.model)
        self.sizes = sorted({min(plan["bucket"], self.message) // 4, self.message // 4})
        self.worlds = []
        for name in sorted({cell[1] for cell in plan["cells"]}):
            built = topologies.build(name, dist.get_world_size(), plan["local_size"])
            self.worlds.append((built, DistributedWorld(settings, built, torch.device("cpu"))))

    def measure(self) -> list[dict[str, Any]]:
        """Times of every kind of exchange, of all workers together, and the median time of each pass."""
        found: dict[Exchange, list[float]] = {}
        for topology, world in self.worlds:
            for round_ in different_rounds(topology):
                key = exchange_keys(round_, topology.node_of)[world.rank]
                for size in self.sizes:
                    times = [timed(world, torch.zeros(1, size), round_) for _ in range(1 + SAMPLES)][1:]
                    if key is not None:
                        found.setdefault((topology.name, key, 4 * size), []).extend(times)
        exchanges, computing = gather(found), gather(self._computing())
        return [
            {"computing": np.median(computing, axis=0).tolist()},
            *({**named(exchange), "times": times} for exchange, times in pooled(exchanges).items()),
        ]

    def _computing(self) -> list[float]:
        """Seconds of forward, backward and update of this worker, while all others compute too."""
        passes = []
        for _ in range(1 + SAMPLES):
            dist.barrier()
            marks = [time.perf_counter()]
            loss = self.load.loss(self.model)
            marks.append(time.perf_counter())
            loss.backward()
            marks.append(time.perf_counter())
            self.optimizer.step()
            self.optimizer.zero_grad()
            marks.append(time.perf_counter())
            passes.append([b - a for a, b in pairwise(marks)])
        return np.median(passes[1:], axis=0).tolist()


if __name__ == "__main__":
    run_main(main)
