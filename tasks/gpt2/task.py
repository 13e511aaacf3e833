"""GPT-2 on text as a `decent_core.training.task.Task`."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decent_core.training.task import Batch, Task
from tasks.common.sampling import local_batch, positions
from tasks.gpt2.model import build_gpt2
from tasks.gpt2.preparation import prepare
from tasks.gpt2.settings import Settings
from tasks.gpt2.tokens import load_tokens
from tasks.gpt2.windows import IGNORED, TrainingWindows, ValidationWindows, shards_by_document

#: a validation batch's summed loss (nats) and how many tokens it predicts
Part = tuple[float, int]


class Gpt2Task(Task):
    """Next-token prediction. Batches are {"inputs", "targets"}, int64 [sequences, context]."""

    name = "gpt2"
    primary_metric = "val_loss"
    lower_is_better = True

    def __init__(self, settings: Settings, seed: int, world_size: int) -> None:
        """ValueError if the batch can't be shared by the workers or the token files are not prepared."""
        self._settings = settings
        self._world_size = world_size
        self._local_batch = local_batch(settings.global_batch, world_size)
        self.samples_per_step = settings.global_batch
        if settings.dataset == "sotu":
            prepare(settings, progress=lambda done, total: None, processes=1)  # embedded: seconds, and only once
        tokens = load_tokens(settings)
        shards = [(0, len(tokens.train))]
        if settings.sharding == "by_document":
            shards = shards_by_document(tokens.train, tokens.end_of_text, world_size)
        self._training = [
            TrainingWindows(tokens.train, first, last, settings.context, seed, stream)
            for stream, (first, last) in enumerate(shards)
        ]
        windows = sum(shard.epochs.size for shard in self._training)
        self.steps_per_epoch = max(1, round(windows / self.samples_per_step))
        self._validation = ValidationWindows(
            tokens.validation, settings.context, settings.validation_batch, settings.validation_tokens
        )

    def build_model(self) -> nn.Module:
        """GPT-2 in float32 on the CPU, weights from torch's global generator."""
        return build_gpt2(self._settings)

    def batch(self, step: int, worker: int) -> Batch:
        """With sharding=iid the workers' batches of a step together are the same for any number of workers."""
        if self._settings.sharding == "by_document":
            windows = self._training[worker].take(step * self._local_batch, self._local_batch)
        else:
            windows = self._training[0].take(*positions(step, worker, self._local_batch, self._world_size))
        tokens = torch.from_numpy(windows)
        return {"inputs": tokens[:, :-1].contiguous(), "targets": tokens[:, 1:].contiguous()}

    def micro_batches(self, batch: Batch, count: int) -> Sequence[Batch]:
        """Consecutive sequences; ValueError if there are fewer than `count`."""
        sequences = len(batch["inputs"])
        if not 1 <= count <= sequences:
            raise ValueError(
                f"trainer.micro_batches={count} does not fit a worker's batch of {sequences} sequences: "
                f"give a value from 1 to {sequences}."
            )
        parts = {key: tensor.tensor_split(count) for key, tensor in batch.items()}
        return [{key: parts[key][i] for key in parts} for i in range(count)]

    def weight(self, batch: Batch) -> float:
        """Predicted tokens."""
        return float((batch["targets"] != IGNORED).sum())

    def loss_sum(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy summed over the predicted tokens, in nats, in float32 at least."""
        logits = model(batch["inputs"]).logits
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=IGNORED, reduction="sum")

    def validation_batches(self) -> Sequence[Batch]:
        """The held-out text in order, every token predicted once."""
        return self._validation

    def evaluate(self, model: nn.Module, batch: Batch) -> Part:
        """The batch's summed loss and its number of tokens."""
        return self.loss_sum(model, batch).item(), int(self.weight(batch))

    def summarise(self, parts: Sequence[Part]) -> dict[str, float]:
        """Mean loss a token (nats) and its exponential."""
        loss = math.fsum(loss for loss, _ in parts) / sum(tokens for _, tokens in parts)
        return {"val_loss": loss, "val_perplexity": math.inf if loss > 700 else math.exp(loss)}
