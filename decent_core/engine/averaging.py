"""Averages over workers: the model that is evaluated, and how far the workers are from it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from decent_core.engine.engine import Engine

COLUMNS = 1 << 22
BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)


@contextmanager
def averaged(
    engine: Engine, batch_norm: str = "average", index: int = 0, recompute: Callable[[nn.Module], None] | None = None
) -> Iterator[nn.Module]:
    """The module with the mean of all workers' parameters; afterwards everything is as it was, bit for bit.

    Buffers by `batch_norm`: `average`: their mean over workers; `recompute`: BN statistics made anew by calling
    `recompute(model)`, which runs training batches forward; `local`: those of local worker `index`.
    """
    replicas, communicator = engine.replicas, engine.communicator
    mean = communicator.mean(replicas.rows, "averaged model")
    own = replicas.buffers[index]
    buffers = [b.clone() for b in own] if batch_norm == "local" else _mean_buffers(engine)
    with replicas.replaced(mean, buffers) as model:
        if batch_norm == "recompute" and any(isinstance(m, BATCH_NORMS) for m in model.modules()):
            assert recompute is not None, "the policy recompute needs training batches"
            _reestimate(model, recompute)
        yield model


def _mean_buffers(engine: Engine) -> list[Tensor]:
    """Floating buffers as the mean over all workers, the others (counters) as the first local worker has them."""
    local = engine.replicas.buffers
    floating = [i for i, b in enumerate(local[0]) if b.is_floating_point()]
    result = [b.clone() for b in local[0]]
    if floating:
        rows = torch.stack([torch.cat([own[i].flatten().double() for i in floating]) for own in local])
        mean = engine.communicator.mean(rows, "averaged buffers")
        for i, part in zip(floating, mean.split([local[0][i].numel() for i in floating]), strict=True):
            result[i].copy_(part.view(result[i].shape))
    return result


@torch.no_grad()
def _reestimate(model: nn.Module, recompute: Callable[[nn.Module], None]) -> None:
    """BN statistics as the plain average over the batches that `recompute` runs."""
    norms = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    momenta, was_training = [m.momentum for m in norms], model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    recompute(model)
    model.train(was_training)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


@torch.no_grad()
def consensus_distance(engine: Engine) -> float:
    """sqrt(mean_i ||x_i - mean_j x_j||^2) over all workers, in the parameters' units; exactly 0 for equal ones."""
    rows = engine.replicas.rows
    squares = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for columns in rows.split(COLUMNS, dim=1):  # float64 without a second copy of all parameters
        exact = columns.double()
        squares += (exact - engine.communicator.mean(exact, "consensus distance")).square_().sum(1)
    everyone = engine.communicator.gather(squares.tolist(), "consensus distance")
    return (sum(everyone) / len(everyone)) ** 0.5
