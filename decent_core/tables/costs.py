"""What a run costs before it has run: its model's parameters, and the bytes that each worker sends a step."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from decent_core.config.run_config import RunConfig
from decent_core.config.task_package import import_task
from decent_core.engine.flat import FlatLayout
from decent_core.methods import Done, Method
from decent_core.topology import Topology

COUNTED_STEPS = 600  # a multiple of what methods and topologies repeat after, or nearly


def row_elements(config: RunConfig) -> int | None:
    """D, the length of a worker's flat row of parameters; None if only the data can tell."""
    with torch.device("meta"):
        model = import_task(config.task_package).build_model(config.task)
    return None if model is None else FlatLayout(model).size


def bytes_sent_per_step(config: RunConfig, elements: int) -> float:
    """Mean over workers and steps of what one sends, as the engine counts it: All-Reduce as a ring.

    Raises ValueError if the topology can't serve the workers.
    """
    method = config.build_method()
    precision = torch.float64 if config.trainer.precision == "fp64" else torch.float32
    workers = CountingWorkers(config.built_topology, elements, precision)
    steps = min(config.trainer.steps, COUNTED_STEPS)
    with torch.no_grad():
        method.start(workers)
        for _ in range(steps):
            workers.take_step(method)
    return workers.bytes_sent / steps


class CountingWorkers:
    """`Workers` without memory: a method's steps leave nothing but the bytes that each worker would have sent."""

    def __init__(self, graph: Topology, elements: int, precision: torch.dtype):
        self.graph, self.step, self.bytes_sent = graph, 0, 0.0
        self.x = torch.empty(1, elements, dtype=precision, device="meta")
        self.momentum = torch.empty_like(self.x)
        self.lr = self.peak_lr = 1.0
        self.beta = 0.0

    def take_step(self, method: Method) -> None:
        """One step of training, of which only the exchanges are there."""
        method.begin_step(self)
        method.end_step(self)
        self.step += 1

    def start_mix(self, rows: Tensor, number: int | None = None) -> Done:
        round_ = self.graph.round(self.step if number is None else number)
        self.bytes_sent += float(np.mean(round_.bytes_sent(rows.shape[1] * rows.element_size())))
        return Done(rows.clone())

    def mix(self, rows: Tensor, number: int | None = None) -> Tensor:
        return self.start_mix(rows, number).wait()

    def mean(self, rows: Tensor) -> Tensor:
        size = self.graph.world_size
        self.bytes_sent += 2 * (size - 1) / size * self.x.shape[1] * self.x.element_size()
        return rows[0]

    def average_gradients(self) -> None:
        self.mean(self.x)

    def gradients(self) -> Tensor:
        return torch.empty_like(self.x)

    def step_along(self, directions: Tensor) -> None: ...
    def apply_optimizers(self) -> None: ...
    def combine_and_adapt(self, mixing: Any) -> None: ...
