"""The implementations that the benches compare: our engine, torch's DistributedDataParallel, decent-dp, no exchange.

All have the same model, optimizer and bucket size. A cell is an implementation and a topology of ours.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from decent_core import topology as topologies
from decent_core.engine.distributed import DistributedCommunicator
from decent_core.engine.engine import Engine
from decent_core.engine.settings import DistributedSettings
from decent_core.lab.loads import Load
from decent_core.methods import METHODS

Cell = tuple[str, str]  # implementation, topology
#: our topologies -> what decent-dp calls the same schedule
REFERENCE_NAMES = {
    "complete": "complete",
    "aer": "alternating-exp-ring",
    "one_peer_hypercube": "one-peer-exp",
    "alternating_ring": "ring",
}
TIMEOUT_SECONDS = 120.0
WARM_UP_STEPS = 2  # decent-dp makes its buckets and its first exchange in the second
LR = 1e-3


class Steps(Protocol):
    """Makes training steps, one after the other."""

    def step(self, ahead: bool) -> tuple[float, float]:
        """One step; seconds that it waited for an exchange (0 if that is not known), and bytes that it sent.

        With `ahead` another step follows, and its exchange may start in this one.
        """

    def drain(self) -> None:
        """Wait for exchanges that the last step has started."""


class EngineSteps:
    """Our engine."""

    def __init__(self, method: str, topology: str, load: Load, local_size: int, bucket_bytes: int):
        settings = DistributedSettings("distributed", TIMEOUT_SECONDS, bucket_bytes / 2**20, False)
        built = topologies.build(topology, dist.get_world_size(), local_size)
        chosen = METHODS[method]()
        self.communicator = DistributedCommunicator(
            settings, built if chosen.uses_topology else None, torch.device("cpu")
        )
        self.load = load
        self.engine = Engine(
            load.build_model(), self.communicator, chosen, built, lambda m: optimizer(m.parameters()),
            piecewise=True, seed=1, peak_lr=LR,
        )  # fmt: skip

    def step(self, ahead: bool) -> tuple[float, float]:
        engine = self.engine
        engine.begin_step(ahead)
        with engine.as_worker(0) as module:
            engine.backward(0, self.load.loss(module))
        engine.end_step()
        return sum(engine.clock.seconds(a, b) for a, b in engine.waits), engine.bytes_sent

    def drain(self) -> None:
        """The last step has started none."""


class PlainSteps:
    """A plain training loop: with DistributedDataParallel, or without any exchange."""

    def __init__(self, load: Load, wrap: Callable[[nn.Module], nn.Module], copies_sent: float):
        self.load = load
        self.module = wrap(load.build_model())
        self.sent = copies_sent * parameter_bytes(self.module)
        self.optimizer = optimizer(self.module.parameters())

    def step(self, ahead: bool) -> tuple[float, float]:
        self.optimizer.zero_grad()
        self.load.loss(self.module).backward()
        self.optimizer.step()
        return 0.0, self.sent

    def drain(self) -> None:
        """There are none."""


class ReferenceSteps:
    """decent-dp: updates bucket by bucket in the backward pass, each followed by its exchange."""

    def __init__(self, topology: str, load: Load, local_size: int, bucket_bytes: int):
        from decent_dp.ddp import DecentralizedDataParallel
        from loguru import logger

        logger.disable("decent_dp")
        self.topology = topologies.build(topology, dist.get_world_size(), local_size)
        self.load, self.number = load, 0
        model = load.build_model()
        self.row_bytes = parameter_bytes(model)
        self.model = DecentralizedDataParallel(
            model,
            lambda named: optimizer([parameter for _, parameter in named]),
            topology=REFERENCE_NAMES[topology],
            bucket_size_in_mb=bucket_bytes / 2**20,
            _local_world_size=local_size,
        )

    def step(self, ahead: bool) -> tuple[float, float]:
        self.load.loss(self.model).backward()
        self.number += 1
        return 0.0, float(np.mean(self.topology.round(self.number).bytes_sent(self.row_bytes)))

    def drain(self) -> None:
        for work in self.model._comm_ops:
            if work is not None:
                work.wait()


def build_cell(cell: Cell, load: Load, local_size: int, bucket_bytes: int) -> Steps:
    """The steps of a cell: `ddp`, `none`, `decent-dp` or a method of ours, over a topology."""
    name, topology = cell
    n = dist.get_world_size()
    if name == "none":
        return PlainSteps(load, lambda model: model, 0.0)
    if name == "ddp":
        wrap = lambda model: nn.parallel.DistributedDataParallel(  # noqa: E731
            model, forward_sync_buffers=False, gradient_as_bucket_view=True, bucket_cap_mb=bucket_bytes / 2**20
        )
        return PlainSteps(load, wrap, 2 * (n - 1) / n)
    if name == "decent-dp":
        return ReferenceSteps(topology, load, local_size, bucket_bytes)
    return EngineSteps(name, topology, load, local_size, bucket_bytes)


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """The one optimizer of all cells."""
    return torch.optim.AdamW(parameters, lr=LR)


def parameter_bytes(model: nn.Module) -> int:
    """Bytes of the trainable parameters."""
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def timed_steps(steps: Steps, count: int) -> dict[str, float]:
    """Means of `count` steps over steps and workers, after one that is not counted: seconds, wait, bytes."""
    dist.barrier()
    steps.step(ahead=True)
    start, waited, sent = time.perf_counter(), 0.0, 0.0
    for number in range(count):
        wait, bytes_ = steps.step(ahead=number + 1 < count)
        waited, sent = waited + wait, sent + bytes_
    values = torch.tensor([time.perf_counter() - start, waited, sent], dtype=torch.float64) / count
    steps.drain()
    dist.all_reduce(values)
    seconds, wait, bytes_ = (values / dist.get_world_size()).tolist()
    return {"seconds": seconds, "wait": wait, "bytes": bytes_}
