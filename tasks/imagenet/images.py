"""What the task asks of a data set: images with sorted labels, given out in batches."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from decent_core.training.task import Batch

#: (step, worker) -> indices [B] into the training images, and a random seed for each, int64 [B]
Draw = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


class Images(Protocol):
    """Batches are {images: uint8 [B, C, H, W], labels: int64 [B]}, on the CPU."""

    classes: int
    #: labels of the training images, sorted, int64 [n]
    labels: np.ndarray
    validation_count: int

    def training_batch(self, draw: Draw, step: int, worker: int) -> Batch:
        """The augmented images that `draw` names; the seeds alone decide on the augmentation."""

    def validation_batches(self, items: Sequence[np.ndarray]) -> Sequence[Batch]:
        """A batch for each array of indices into the validation images, which are sorted by label too."""


def evenly_spaced(total: int, count: int | None, key: str) -> np.ndarray:
    """`count` of the indices below `total` (None: all of them), as far apart as possible; ValueError names `key`."""
    if count is None:
        return np.arange(total)
    if count > total:
        raise ValueError(f"{key}={count}: there are only {total} images; give at most that, or null for all of them.")
    return np.arange(count) * total // count
