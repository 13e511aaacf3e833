"""What the trainer asks of a task: a model, batches, a loss and its metrics. A task owns no loop."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

Batch = Mapping[str, Tensor]


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch's tensors on the device."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


class Task(Protocol):
    """One learning problem at one scale. Everything here is a pure function of the configuration and its arguments.

    A task is a subclass: what ends the class has defaults that do for most.
    """

    name: str
    #: the validation metric that decides `best` in a record, and whether lower is better
    primary_metric: str
    lower_is_better: bool
    #: training samples a step over all workers (sequences, images, sentence pairs)
    samples_per_step: int
    #: training steps in which the workers together see all of the training set once; None: a record needs no such loss
    steps_per_epoch: int | None = None
    #: what the record is to say beside numbers, by subject
    notes: Mapping[str, str] = MappingProxyType({})

    def build_model(self) -> nn.Module:
        """The model with its initial weights, drawn from torch's global generator, on the CPU in float32."""

    def batch(self, step: int, worker: int) -> Batch:
        """Worker `worker`'s training batch of step `step` (from 0), a function of (seed, worker, step), on the CPU."""

    def micro_batches(self, batch: Batch, count: int) -> Sequence[Batch]:
        """The batch in `count` parts whose samples together are the batch's."""

    def weight(self, batch: Batch) -> float:
        """The number of terms in the batch's loss (tokens, images): its loss is `loss_sum / weight`."""

    def loss_sum(self, model: nn.Module, batch: Batch) -> Tensor:
        """The training loss summed over the batch's terms, a differentiable scalar."""

    def validation_batches(self) -> Sequence[Batch]:
        """The validation set in a fixed order, every sample once; the same for any number of workers."""

    def evaluate(self, model: nn.Module, batch: Batch) -> Any:
        """One validation batch's contribution, picklable (sums and counts, sentences); runs without gradients."""

    def summarise(self, parts: Sequence[Any]) -> dict[str, float]:
        """The metrics of the whole validation set from all contributions, in the order of `validation_batches`."""

    def final_batches(self) -> Sequence[Batch]:
        """What the averaged model is evaluated on when training has ended, if that is more than the validation set."""
        return self.validation_batches()

    def outputs(self, parts: Sequence[Any]) -> list[dict[str, str]]:
        """Some outputs to look at, from the contributions of `final_batches`, each as texts by what they are."""
        return []
