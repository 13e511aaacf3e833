"""Engines on the regression task, for oracles that are known exactly."""

from typing import Any

import numpy as np
import torch

from decent_core import topology
from decent_core.engine.engine import Engine
from decent_core.engine.virtual import VirtualCommunicator
from decent_core.methods import METHODS
from decent_core.optim import build, parameter_groups
from decent_core.optim.settings import SGDSettings
from tasks.regression.settings import Settings
from tasks.regression.task import RegressionTask
from tests.support import engines

DIMENSION = 3


def task_of(world_size: int, problem: str = "quadratic") -> RegressionTask:
    settings = Settings("regression", problem, dimension=DIMENSION, equations=5, noise=1.0, data_seed=7)
    return RegressionTask(settings, world_size)


def quadratic_engine(
    name: str, graph, lr=0.1, beta=0.0, decay=0.0, nesterov=False, rank=None, options: dict[str, Any] | None = None
) -> tuple[Engine, RegressionTask]:
    """A method over SGD on the quadratic, in the virtual engine (rank None) or on this rank; `lr` may be a function."""
    world = VirtualCommunicator(graph.world_size) if rank is None else engines.distributed_communicator(graph, name)
    rate = lr if callable(lr) else lambda step: lr
    task = task_of(graph.world_size)
    torch.manual_seed(0)
    model = task.build_model().double()
    sgd = SGDSettings("sgd", lr=0.1, momentum=beta, nesterov=nesterov, weight_decay=decay)

    def optimizer(module):
        """Decay on everything: the vector that is looked for counts as a matrix."""
        groups = [{**group, "weight_decay": decay} for group in parameter_groups(module, decay)]
        return build(sgd, groups)

    engine = Engine(
        model, world, METHODS[name](**(options or {})), graph, optimizer, piecewise=True, seed=1,
        peak_lr=max(map(rate, range(40))),
    )  # fmt: skip
    engine.learning_rate, engine.micro_batches = rate, 1
    return engine, task


def points(engine: Engine) -> np.ndarray:
    """The local workers' x, [L, D]."""
    return engine.x[:, :DIMENSION].numpy().copy()


def run(engine: Engine, task: RegressionTask, steps: int) -> list[np.ndarray]:
    """x [L, D] after each step."""
    history = []
    for _ in range(steps):
        engines.train_step(engine, task)
        history.append(points(engine))
    return history


def trajectory(name: str, graph, steps: int, **options) -> np.ndarray:
    """x of the local workers after each step, [steps, L, D]."""
    engine, task = quadratic_engine(name, graph, **options)
    return np.stack(run(engine, task, steps))


def ring(world_size: int):
    return topology.build("ring", world_size)
