"""Regression as a `decent_core.training.task.Task`."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from decent_core.training.task import Batch, Task
from tasks.regression.problem import draw
from tasks.regression.settings import Settings

SMALLEST = 1e-32  # squared distances below it are rounding

#: ||x - x*||^2 and F(x) - F(x*)
Part = tuple[float, float]


class Point(nn.Module):
    """The vector x [D] that is looked for, zero at first."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(dimension))

    def forward(self, A: Tensor, b: Tensor) -> Tensor:
        """A x - b, [rows]."""
        return A.to(self.x.dtype) @ self.x - b.to(self.x.dtype)


class RegressionTask(Task):
    """Batches are {"A" [M, D], "b" [M]}, the same in every step: worker i's loss is f_i itself."""

    name = "regression"
    primary_metric = "log10_squared_distance"
    lower_is_better = True

    def __init__(self, settings: Settings, world_size: int) -> None:
        self.problem = draw(settings, world_size)
        self._dimension = settings.dimension
        self._equations = self.problem.b.shape[1]
        self.samples_per_step = self.problem.b.size

    def build_model(self) -> nn.Module:
        """x = 0."""
        return Point(self._dimension)

    def batch(self, step: int, worker: int) -> Batch:
        """All of the worker's equations."""
        return {"A": torch.from_numpy(self.problem.A[worker]), "b": torch.from_numpy(self.problem.b[worker])}

    def micro_batches(self, batch: Batch, count: int) -> Sequence[Batch]:
        """Consecutive equations; ValueError if there are fewer than `count`."""
        if not 1 <= count <= len(batch["b"]):
            raise ValueError(
                f"trainer.micro_batches={count} does not fit a worker's {len(batch['b'])} equations: "
                f"give a value from 1 to {len(batch['b'])}."
            )
        parts = zip(batch["A"].tensor_split(count), batch["b"].tensor_split(count), strict=True)
        return [{"A": A, "b": b} for A, b in parts]

    def weight(self, batch: Batch) -> float:
        """The part of the worker's equations, so that its loss is their sum and not their mean."""
        return len(batch["b"]) / self._equations

    def loss_sum(self, model: nn.Module, batch: Batch) -> Tensor:
        """1/2 ||A x - b||^2."""
        return model(batch["A"], batch["b"]).square().sum() / 2

    def validation_batches(self) -> Sequence[Batch]:
        """One: the optimum, and the curvature around it."""
        curvature = torch.from_numpy(self.problem.hessians.mean(0))
        return [{"optimum": torch.from_numpy(self.problem.optimum), "curvature": curvature}]

    def evaluate(self, model: nn.Module, batch: Batch) -> Part:
        """How far x is from the optimum."""
        assert isinstance(model.x, Tensor)
        off = model.x.double() - batch["optimum"]
        return off.square().sum().item(), (off @ batch["curvature"] @ off).item() / 2

    def summarise(self, parts: Sequence[Part]) -> dict[str, float]:
        """Squared distance to the optimum, its decimal logarithm, and how far the objective is above its minimum."""
        ((squared, gap),) = parts
        return {
            "log10_squared_distance": math.log10(max(squared, SMALLEST)),
            "squared_distance": squared,
            "objective_gap": gap,
        }
