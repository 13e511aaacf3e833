"""Fashion-MNIST in memory: the embedded 12,000 + 2,000 images, or all 60,000 + 10,000 once they are prepared."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from decent_core.training.task import Batch
from tasks import assets
from tasks.imagenet.images import Draw
from tasks.imagenet.settings import Settings

CLASSES, SIDE = 10, 28
EMBEDDED = {"train": 1200, "validation": 200}  # images a class
FILES = {"train": "train.npz", "validation": "validation.npz"}


@dataclass(frozen=True)
class Split:
    """Images uint8 [n, 28, 28] and their labels int64 [n], sorted by label."""

    images: np.ndarray
    labels: np.ndarray


def load_split(settings: Settings, name: str) -> Split:
    """Split `train` or `validation`; ValueError says how to prepare what is missing."""
    if settings.dataset == "fashion_mnist_12k":
        return _embedded()[name]
    path = prepared_folder(settings) / FILES[name]
    if not path.exists():
        raise ValueError(
            f"task.dataset=fashion_mnist is not prepared (looked for {path}). Prepare it with: "
            "python -m scripts.prepare task=imagenet (with the same scale and task overrides), or use "
            "task.dataset=fashion_mnist_12k, which is embedded."
        )
    with np.load(path) as arrays:
        return Split(arrays["images"], arrays["labels"].astype(np.int64))


def prepared_folder(settings: Settings) -> Path:
    """Where the prepared data set lies."""
    return Path(settings.data_dir) / "fashion_mnist"


@cache
def _embedded() -> dict[str, Split]:
    pixels = np.frombuffer(assets.read("fashion_mnist_12k"), np.uint8).reshape(-1, SIDE, SIDE)
    splits, start = {}, 0
    for name, each in EMBEDDED.items():
        count = each * CLASSES
        splits[name] = Split(pixels[start : start + count], np.repeat(np.arange(CLASSES), each))
        start += count
    assert start == len(pixels)
    return splits


class FashionImages:
    """Random crops of zero-padded images, and flips; see `images.Images`."""

    classes = CLASSES

    def __init__(self, settings: Settings) -> None:
        train, self._validation = load_split(settings, "train"), load_split(settings, "validation")
        self.labels, self.validation_count = train.labels, len(self._validation.labels)
        around = settings.padding
        self._padded = np.pad(train.images, ((0, 0), (around, around), (around, around)))
        self._places = 2 * around + 1

    def training_batch(self, draw: Draw, step: int, worker: int) -> Batch:
        items, seeds = draw(step, worker)
        rest, flipped = np.divmod(seeds, 2)
        rest, left = np.divmod(rest, self._places)
        top = rest % self._places
        across = np.arange(SIDE)
        columns = left[:, None] + np.where(flipped[:, None] == 1, across[::-1], across)  # [B, W]
        rows = top[:, None] + across  # [B, H]
        pixels = self._padded[items[:, None, None], rows[:, :, None], columns[:, None, :]]
        return _batch(pixels, self.labels[items])

    def validation_batches(self, items: Sequence[np.ndarray]) -> Sequence[Batch]:
        return [_batch(self._validation.images[part], self._validation.labels[part]) for part in items]


def _batch(pixels: np.ndarray, labels: np.ndarray) -> dict[str, Tensor]:
    return {"images": torch.from_numpy(pixels)[:, None], "labels": torch.from_numpy(labels)}
