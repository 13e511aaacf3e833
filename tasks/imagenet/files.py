"""Batches of images in files, decoded ahead of the steps that need them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decent_core.training.task import Batch
from tasks.imagenet.images import Draw
from tasks.imagenet.loader import Decoder, Ordered
from tasks.imagenet.settings import Settings
from tasks.imagenet.splits import open_splits


class FileImages:
    """Random resized crops and flips, decoded up to `task.look_ahead` steps in advance; see `images.Images`."""

    def __init__(self, settings: Settings) -> None:
        self._splits = open_splits(settings)
        train, validation = self._splits["train"], self._splits["validation"]
        self.classes, self.labels = len(train.class_names), train.labels
        self.validation_count = len(validation.labels)
        self.decoder = Decoder(settings, {name: split.reader for name, split in self._splits.items()})
        self._look_ahead = settings.look_ahead
        self._ahead: dict[tuple[int, int], Ordered] = {}  # (step, worker) -> a batch that is being decoded
        self._latest: dict[int, int] = {}  # worker -> the last step that it was given

    def training_batch(self, draw: Draw, step: int, worker: int) -> Batch:
        ordered = self._ahead.pop((step, worker), None) or self._order_training(draw, step, worker)
        if step > self._latest.get(worker, -1):  # not a look back, as when BN statistics are made anew
            self._latest[worker] = step
            for passed in [key for key in self._ahead if key[0] < step]:  # of steps that were skipped
                self.decoder.drop(self._ahead.pop(passed))
            for later in range(step + 1, step + 1 + self._look_ahead):
                if (later, worker) not in self._ahead:
                    self._ahead[later, worker] = self._order_training(draw, later, worker)
        return self.decoder.receive(ordered)

    def _order_training(self, draw: Draw, step: int, worker: int) -> Ordered:
        items, seeds = draw(step, worker)
        return self.order("train", items, seeds)

    def order(self, split: str, items: np.ndarray, seeds: np.ndarray) -> Ordered:
        """Begin to decode these images of a split."""
        files = self._splits[split]
        return self.decoder.order(split, files.references(items), files.labels[items], seeds)

    def validation_batches(self, items: Sequence[np.ndarray]) -> Sequence[Batch]:
        return ValidationBatches(self, items)


class ValidationBatches(Sequence[Batch]):
    """Decoded when they are asked for, the next one in advance."""

    def __init__(self, images: FileImages, items: Sequence[np.ndarray]) -> None:
        self._images, self._items = images, items
        self._last = -1
        self._ahead: tuple[int, Ordered] | None = None

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        index = range(len(self))[index]
        ahead, self._ahead = self._ahead, None
        ordered = ahead[1] if ahead is not None and ahead[0] == index else self._order(index)
        following = index + (index - self._last)  # workers take every N-th batch
        self._last = index
        if index < following < len(self):
            self._ahead = (following, self._order(following))
        return self._images.decoder.receive(ordered)

    def _order(self, index: int) -> Ordered:
        items = self._items[index]
        return self._images.order("validation", items, np.zeros(len(items), np.int64))
