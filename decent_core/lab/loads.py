"""What a worker of the benches computes: nothing (it sleeps as long), or a task at scale tiny."""

import time
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from decent_core.lab.record import SLEEP

SEED = 1


class Load(Protocol):
    """A model, and the loss of one batch."""

    def build_model(self) -> nn.Module: ...
    def loss(self, model: nn.Module) -> Tensor: ...


class _Sleep(torch.autograd.Function):
    """Gives an element of a parameter; its backward pass sleeps before it returns a gradient."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, seconds: float) -> Tensor:
        ctx.seconds, ctx.shape = seconds, parameter.shape
        return parameter[0].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return torch.zeros(ctx.shape), None


class Sleeper(nn.Module):
    """`buckets` parameters of equal size; the passes take the given seconds and no processor."""

    def __init__(self, buckets: int, elements: int, forward: float, backward: float):
        super().__init__()
        self.parts = nn.ParameterList([nn.Parameter(torch.zeros(elements)) for _ in range(buckets)])
        self.times = forward, backward / buckets

    def forward(self) -> Tensor:
        time.sleep(self.times[0])
        total = torch.zeros(())
        for part in self.parts:
            total = total + _Sleep.apply(part, self.times[1])
        return total


class SleepLoad:
    """Sleeps in place of computing, so that two cores are enough for many workers."""

    def __init__(self, buckets: int, elements: int, forward: float, backward: float):
        self.sizes = buckets, elements, forward, backward

    def build_model(self) -> nn.Module:
        return Sleeper(*self.sizes)

    def loss(self, model: nn.Module) -> Tensor:
        return model()


class TaskLoad:
    """The model of a task at scale tiny, and one fixed batch of this worker."""

    def __init__(self, name: str, worker: int, workers: int):
        from decent_core.config.load import load
        from decent_core.config.task_package import import_task

        config = load([f"task={name}", "scale=tiny"])
        self.task = import_task(config.task_package).build(config.task, SEED, workers)
        self.batch = self.task.batch(0, worker)

    def build_model(self) -> nn.Module:
        torch.manual_seed(SEED)
        return self.task.build_model()

    def loss(self, model: nn.Module) -> Tensor:
        return self.task.loss_sum(model, self.batch) / self.task.weight(self.batch)


def make_load(plan: dict[str, Any], worker: int, workers: int) -> Load:
    """The load that the plan of a bench names; times in seconds."""
    if plan["load"] == SLEEP:
        return SleepLoad(plan["buckets"], plan["elements"], plan["forward"], plan["backward"])
    return TaskLoad(plan["load"], worker, workers)
