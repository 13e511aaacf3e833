"""Builds engines on the toy task, and trains them step by step, for tests on any world."""

from typing import Any

import numpy as np
import torch

from decent_core import topology
from decent_core.engine.distributed import DistributedCommunicator
from decent_core.engine.engine import Engine
from decent_core.engine.settings import DistributedSettings
from decent_core.engine.virtual import VirtualCommunicator
from decent_core.methods import METHODS
from decent_core.optim import OPTIMIZERS, build, parameter_groups
from decent_core.system.signals import StopRequest
from decent_core.training.checkpoint import Checkpoints
from decent_core.training.trainer import Trainer
from tests.support.toy import ToyTask, trainer_settings

LR, DECAY = 0.05, 0.1
OPTIONS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9, "nesterov": False},
    "adam": {"betas": (0.9, 0.99), "eps": 1e-8},
    "adamw": {"betas": (0.9, 0.99), "eps": 1e-8},
    "accum_adam": {"betas": (0.9, 0.99), "eps": 1e-8, "window": 3, "eps_inside": False},
    "accum_adamw": {"betas": (0.9, 0.99), "eps": 1e-8, "window": 3, "eps_inside": False},
}


def rate(step: int) -> float:
    """A learning rate that changes, and is zero in step 0 as with a warm-up from nothing."""
    return LR * min(step, 5) / 5


def build_engine(
    world, task: ToyTask, method: str, optimizer: str, graph, spread=0.3, options: dict | None = None, **settings
) -> Engine:
    """An engine on the toy model whose workers start apart: each one's parameters are shifted by a random vector."""
    torch.manual_seed(3)
    model = task.build_model()
    settings = trainer_settings(**settings)
    if settings.precision == "fp64":
        model.double()
    chosen = OPTIMIZERS[optimizer](name=optimizer, lr=LR, weight_decay=DECAY, **OPTIONS[optimizer])
    if settings.channels_last:
        model.to(memory_format=torch.channels_last)
    engine = Engine(
        model,
        world,
        METHODS[method](**(options or {})),
        graph,
        lambda m: build(chosen, parameter_groups(m, DECAY)),
        clip_norm=settings.clip_norm,
        scaled=settings.precision == "fp16",
        piecewise=True,
        seed=5,
        peak_lr=max(map(rate, range(settings.steps))),
    )
    engine.learning_rate, engine.micro_batches = rate, settings.micro_batches  # for `train_step`
    if settings.compile:
        engine.module.compile()
    if not engine.method.averages_gradients:
        for row, worker in zip(engine.x, world.local_workers, strict=True):
            for view in engine.replicas.layout.views(row):
                noise = np.random.default_rng([worker, view.numel()]).normal(size=view.shape)
                view += spread * torch.from_numpy(noise).to(view)
    return engine


def distributed_communicator(
    graph, method: str = "awc", timeout: float = 30, bucket_mib: float = 5e-4
) -> DistributedCommunicator:
    """The communicator of this rank; the bucket holds 65 float64, half the toy's parameters: they travel in pieces."""
    settings = DistributedSettings("distributed", timeout, bucket_mib, find_unused_parameters=True)
    return DistributedCommunicator(settings, graph if METHODS[method].uses_topology else None, torch.device("cpu"))


def train_step(engine: Engine, task: ToyTask, ahead: bool = False) -> None:
    """One step, with the rate and the micro-batches that the test's settings ask for."""
    engine.set_learning_rate(engine.learning_rate(engine.step))
    engine.begin_step(ahead)
    for index, worker in enumerate(engine.communicator.local_workers):
        batch = task.batch(engine.step, worker)
        parts = task.micro_batches(batch, engine.micro_batches)
        for number, part in enumerate(parts):
            with engine.as_worker(index, number, number == len(parts) - 1) as module:
                engine.backward(index, task.loss_sum(module, part) / task.weight(batch))
    engine.end_step()


def parameters(engine: Engine, index: int) -> dict[str, np.ndarray]:
    """The trainable parameters of a local worker by name."""
    engine.replicas.bind(index)
    named = engine.model.named_parameters()
    return {name: p.detach().numpy().copy() for name, p in named if p.requires_grad}


def trajectory(engine: Engine, task: ToyTask, steps: int) -> list[np.ndarray]:
    """The local rows [L, D] after each step; exchanges run ahead of their steps where they can."""
    rows = []
    for number in range(steps):
        train_step(engine, task, ahead=number + 1 < steps)
        rows.append(engine.x.numpy().copy())
    return rows


def case(
    world_size: int, method: str, optimizer: str, name: str, local_size: int, settings: dict, steps: int, rank=None
):
    """The trajectory of one combination: of all virtual workers (rank None), or of this rank's."""
    graph = topology.build(name, world_size, local_size)
    world = VirtualCommunicator(world_size) if rank is None else distributed_communicator(graph, method)
    task = ToyTask(seed=1, world_size=world_size)
    return trajectory(build_engine(world, task, method, optimizer, graph, **settings), task, steps)


def make_trainer(world, folder, task: ToyTask, graph, method="awc", optimizer="accum_adamw", resume="auto", **settings):
    """A trainer on the toy task that logs to a list; it has continued from a checkpoint if `folder` holds one."""
    engine = build_engine(world, task, method, optimizer, graph, **settings)
    of_engine = ("spread", "options")
    chosen = trainer_settings(**{name: value for name, value in settings.items() if name not in of_engine})
    log: list[dict] = []
    identity = {"world_size": world.size, "method": method, "optimizer": optimizer, "topology": graph.name}
    warnings: list[str] = []
    checkpoints = Checkpoints(folder, world, chosen.keep_checkpoints, identity, warnings.append)
    trainer = Trainer(task, engine, chosen, rate, checkpoints, log.append, StopRequest())
    if (state := checkpoints.load(resume)) is not None:
        trainer.restore(state)
    return trainer, log, warnings


def untimed(log: list[dict]) -> list[dict]:
    """Log entries without what a clock has measured."""
    timed = ("train_seconds", "step_ms", "wait_ms", "samples_per_second", "seconds")
    return [{name: value for name, value in entry.items() if name not in timed} for entry in log]
