"""What a run costs before it has run: its model's parameters, and the bytes that each worker sends a step."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import tasks
from decent_core import topology
from decent_core.engine.flat import FlatLayout
from decent_core.methods import METHODS, Done, Method
from decent_core.topology import Topology
from scripts.command.run_config import RunConfig

COUNTED_STEPS = 600  # a multiple of what methods and topologies repeat after, or nearly
ILSVRC_CLASSES = 1000


def row_elements(config: RunConfig) -> int | None:
    """D, the length of a worker's flat row of parameters; None if only the data can tell."""
    with torch.device("meta"):
        model = MODELS[tasks.TASKS[config.task.name]](config.task)
    return None if model is None else FlatLayout(model).size


def bytes_sent_per_step(config: RunConfig, elements: int) -> float:
    """Mean over workers and steps of what one sends, as the engine counts it: All-Reduce as a ring.

    Raises ValueError if the topology can't serve the workers.
    """
    graph = topology.build(config.topology.name, config.world_size, config.local_size or 1, **config.topology.options)
    method = METHODS[config.method.name](**config.method.options)
    precision = torch.float64 if config.trainer.precision == "fp64" else torch.float32
    workers = CountingWorkers(graph, elements, precision)
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


def _gpt2(settings: Any) -> nn.Module:
    from tasks.gpt2.model import build_gpt2  # transformers takes seconds to import, for the tasks that need it

    return build_gpt2(settings)


def _imagenet(settings: Any) -> nn.Module | None:
    from tasks.imagenet.fashion import CLASSES
    from tasks.imagenet.model import build_model
    from tasks.imagenet.settings import FASHION

    classes = CLASSES if settings.dataset in FASHION else ILSVRC_CLASSES if settings.dataset == "ilsvrc" else None
    return None if classes is None else build_model(settings, classes)


def _regression(settings: Any) -> nn.Module:
    from tasks.regression.task import Point

    return Point(settings.dimension)


def _wmt14(settings: Any) -> nn.Module | None:
    from tasks.wmt14.model import MarianTransformer

    return MarianTransformer(settings) if settings.model == "marian" else None


#: package of a task -> its model from the settings; None where the data decide about it
MODELS: dict[str, Callable[[Any], nn.Module | None]] = {
    "tasks.gpt2": _gpt2,
    "tasks.imagenet": _imagenet,
    "tasks.regression": _regression,
    "tasks.wmt14": _wmt14,
}
