"""Image classification behind the trainer's protocol: top-1 and top-5 accuracy, label smoothing, a ResNet."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decent_core.training.task import Batch, Task
from tasks.common.sampling import generator
from tasks.imagenet.fashion import FashionImages
from tasks.imagenet.files import FileImages
from tasks.imagenet.images import Images, evenly_spaced
from tasks.imagenet.model import build_model
from tasks.imagenet.settings import FASHION, Settings
from tasks.imagenet.shards import Sampler

AUGMENTATION_STREAM = 1_000_004  # random numbers of the augmentation; beyond any worker's stream

#: a validation batch's summed cross-entropy, images with the label among the 1 and the 5 most likely classes, images
Part = tuple[float, int, int, int]


class ImageTask(Task):
    """See `decent_core.training.task.Task`. A batch is {images: uint8 [B, C, H, W], labels: int64 [B]}."""

    name = "imagenet"
    primary_metric = "top1"
    lower_is_better = False

    def __init__(self, settings: Settings, seed: int, world_size: int) -> None:
        self.samples_per_step = settings.global_batch
        self._settings, self._seed = settings, seed
        self._images: Images = FashionImages(settings) if settings.dataset in FASHION else FileImages(settings)
        self._train = evenly_spaced(len(self._images.labels), settings.train_images, "task.train_images")
        self._sampler = Sampler(settings, self._images.labels[self._train], seed, world_size)
        self.steps_per_epoch = max(1, round(self._sampler.epoch / self.samples_per_step))
        validation = evenly_spaced(self._images.validation_count, settings.validation_images, "task.validation_images")
        count = math.ceil(len(validation) / settings.validation_batch)
        # Every batch holds all classes, so a worker's share of the batches is like any other's.
        parts = [validation[first::count] for first in range(count)]
        self._validation = self._images.validation_batches(parts)
        self._constants = lru_cache(self._make_constants)

    def build_model(self) -> nn.Module:
        return build_model(self._settings, self._images.classes)

    def batch(self, step: int, worker: int) -> Batch:
        return self._images.training_batch(self._draw, step, worker)

    def _draw(self, step: int, worker: int) -> tuple[np.ndarray, np.ndarray]:
        """The worker's images and a seed for the augmentation of each.

        The seeds belong to the places in the step's global batch: they differ between workers, and what all workers
        see together does not depend on how many they are.
        """
        local = self._sampler.local
        seeds = generator(self._seed, AUGMENTATION_STREAM, step).integers(2**62, size=self.samples_per_step)
        return self._train[self._sampler.items(step, worker)], seeds[worker * local : (worker + 1) * local]

    def micro_batches(self, batch: Batch, count: int) -> Sequence[Batch]:
        size = len(batch["labels"])
        if size < count:
            raise ValueError(
                f"trainer.micro_batches={count}: a worker's batch has only {size} images; give at most that."
            )
        parts = {name: tensor.tensor_split(count) for name, tensor in batch.items()}
        return [{name: parts[name][index] for name in batch} for index in range(count)]

    def weight(self, batch: Batch) -> float:
        return len(batch["labels"])

    def loss_sum(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = model(self._normalised(model, batch["images"]))
        return F.cross_entropy(logits, batch["labels"], reduction="sum", label_smoothing=self._settings.label_smoothing)

    def validation_batches(self) -> Sequence[Batch]:
        return self._validation

    def evaluate(self, model: nn.Module, batch: Batch) -> Part:
        """Sums over the batch's images; the loss is without label smoothing."""
        logits = model(self._normalised(model, batch["images"])).double()
        loss = F.cross_entropy(logits, batch["labels"], reduction="sum")
        likely = logits.topk(min(5, logits.shape[1])).indices == batch["labels"][:, None]
        return loss.item(), int(likely[:, :1].sum()), int(likely.sum()), len(logits)

    def summarise(self, parts: Sequence[Part]) -> dict[str, float]:
        """Mean loss in nats, and accuracies in percent, over all images."""
        loss, top1, top5, count = (sum(column) for column in zip(*parts, strict=True))
        return {"val_loss": loss / count, "top1": 100 * top1 / count, "top5": 100 * top5 / count}

    def _normalised(self, model: nn.Module, images: Tensor) -> Tensor:
        """uint8 [B, C, H, W] -> zero mean and unit variance, in the precision of the model's parameters."""
        mean, std = self._constants(images.device, next(model.parameters()).dtype)
        return images.to(mean.dtype).div_(255).sub_(mean).div_(std)

    def _make_constants(self, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        mean, std = (
            torch.tensor(v, device=device, dtype=dtype)[:, None, None]
            for v in (self._settings.mean, self._settings.std)
        )
        return mean, std
