"""A task small enough to be written again in numpy: a two-layer network with a frozen and an unused parameter."""

import numpy as np
import torch
from torch import Tensor, nn

from decent_core.config.trainer_settings import TrainerSettings
from decent_core.training.task import Task

INPUTS, HIDDEN, OUTPUTS, BATCH = 5, 7, 3, 6


def trainer_settings(**changes) -> TrainerSettings:
    """Settings for tests: float64, nothing logged or saved unless asked for."""
    values = {
        "steps": 20,
        "eval_every": 0,
        "checkpoint_every": 0,
        "log_every": 5,
        "keep_checkpoints": 2,
        "micro_batches": 1,
        "clip_norm": None,
        "precision": "fp64",
        "compile": False,
        "channels_last": False,
        "batch_norm": "average",
        "diverged_patience": 1,
        "threads": 1,
    }
    return TrainerSettings(**{**values, **changes})


class ToyModel(nn.Module):
    """tanh(x w1 + b1) w2 + frozen; `unused` gets no gradient, `sometimes` only on samples that say so."""

    def __init__(self, dropout: float = 0.0, batch_norm: bool = False):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(INPUTS, HIDDEN))
        self.b1 = nn.Parameter(torch.randn(HIDDEN))
        self.frozen = nn.Parameter(torch.randn(OUTPUTS), requires_grad=False)
        self.w2 = nn.Parameter(torch.randn(HIDDEN, OUTPUTS))
        self.unused = nn.Parameter(torch.randn(4))
        self.sometimes = nn.Parameter(torch.randn(OUTPUTS))
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.BatchNorm1d(HIDDEN) if batch_norm else nn.Identity()

    def forward(self, x: Tensor, use_sometimes: bool) -> Tensor:
        hidden = self.norm(torch.tanh(x @ self.w1 + self.b1))
        output = self.dropout(hidden) @ self.w2 + self.frozen
        return output + self.sometimes if use_sometimes else output


class ToyTask(Task):
    """Least squares on fixed random data, other data for each (seed, worker, step)."""

    name, primary_metric, lower_is_better = "toy", "val_loss", True

    def __init__(
        self, seed: int = 0, world_size: int = 1, validation: int = 13, poison_step: int | None = None, **model
    ):
        self.seed, self.model_options, self.poison_step = seed, model, poison_step
        self.samples_per_step = BATCH * world_size
        draw = np.random.default_rng(99)
        self.validation = [
            {
                "x": torch.from_numpy(draw.normal(size=(n, INPUTS))),
                "y": torch.from_numpy(draw.normal(size=(n, OUTPUTS))),
            }
            for n in (4, 4, 4, max(1, validation - 12))
        ]

    def build_model(self) -> nn.Module:
        return ToyModel(**self.model_options)

    def batch(self, step: int, worker: int) -> dict[str, Tensor]:
        draw = np.random.default_rng([self.seed, worker, step])
        x, y = draw.normal(size=(BATCH, INPUTS)), draw.normal(size=(BATCH, OUTPUTS)) + worker
        if step == self.poison_step and worker == 0:
            x[0, 0] = np.nan
        used = torch.full((BATCH,), uses_sometimes(step, worker))
        return {"x": torch.from_numpy(x), "y": torch.from_numpy(y), "used": used}

    def micro_batches(self, batch, count: int) -> list[dict[str, Tensor]]:
        chunks = {name: tensor.chunk(count) for name, tensor in batch.items()}
        return [{name: chunks[name][i] for name in batch} for i in range(count)]

    def weight(self, batch) -> float:
        return len(batch["x"])

    def loss_sum(self, model: nn.Module, batch) -> Tensor:
        kind = next(iter(model.parameters())).dtype
        output = model(batch["x"].to(kind), bool(batch["used"][0]))
        return (output.float() if kind == torch.float32 else output).sub(batch["y"].to(kind)).square().sum() / 2

    def validation_batches(self) -> list[dict[str, Tensor]]:
        return self.validation

    def evaluate(self, model: nn.Module, batch) -> tuple[float, int]:
        loss = self.loss_sum(model, {**batch, "used": torch.tensor([True])})
        return loss.item(), len(batch["x"])

    def summarise(self, parts) -> dict[str, float]:
        return {"val_loss": sum(loss for loss, _ in parts) / sum(count for _, count in parts)}


def uses_sometimes(step: int, worker: int) -> bool:
    """`sometimes` has a gradient on some workers in some steps; in every seventh step on none."""
    return (step + worker) % 2 == 0 and step % 7 != 3
