"""Times computing and exchanges of a bench's load apart from each other: the input of a prediction of its steps."""

import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from decent_core import topology as topologies
from decent_core.engine.distributed import DistributedCommunicator, gather_objects
from decent_core.engine.settings import DistributedSettings
from decent_core.lab.contestants import TIMEOUT_SECONDS, optimizer, parameter_bytes
from decent_core.lab.exchanges import Exchange, as_json, different_rounds, pooled, timed
from decent_core.lab.loads import Load
from decent_core.runtime.exchanges import exchange_keys

SAMPLES = 2  # of each exchange, in each repeat


class Isolated:
    """Measures computing, and exchanges: of all parameters, and of one bucket of them."""

    def __init__(self, plan: dict[str, Any], load: Load):
        settings = DistributedSettings("distributed", TIMEOUT_SECONDS, plan["bucket"] / 2**20, False)
        self.load, self.model = load, load.build_model()
        self.optimizer = optimizer(self.model.parameters())
        self.message = parameter_bytes(self.model)
        self.sizes = sorted({min(plan["bucket"], self.message) // 4, self.message // 4})
        self.worlds = []
        for name in sorted({cell[1] for cell in plan["cells"]}):
            built = topologies.build(name, dist.get_world_size(), plan["local_size"])
            self.worlds.append((built, DistributedCommunicator(settings, built, torch.device("cpu"))))

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
        exchanges, computing = gather_objects(found), gather_objects(self._computing())
        return [
            {"computing": np.median(computing, axis=0).tolist()},
            *({**as_json(exchange), "times": times} for exchange, times in pooled(exchanges).items()),
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
