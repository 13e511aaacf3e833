"""Windows of tokens: shuffled without replacement for training, sequential for validation."""

import itertools
import math
from collections.abc import Sequence
from typing import overload

import numpy as np
import torch

from decent_core.training.task import Batch
from tasks.common.sampling import Epochs, generator

IGNORED = -100  # target of padding: no term of the loss

_OFFSET = 1  # key of the epochs' offsets, beside that of their order
_SCAN = 1 << 16  # tokens looked at a time for the end of a document


class TrainingWindows:
    """Endless epochs of windows over tokens[first:last].

    An epoch cuts the tokens into windows from a random offset on, so that borders differ between epochs and no token is
    left out for ever; each window predicts `context` tokens and is seen once an epoch. ValueError if there are too few.
    """

    def __init__(self, tokens: np.ndarray, first: int, last: int, context: int, seed: int, stream: int) -> None:
        count = (last - first - 1) // context - 1  # one fewer than fit, which leaves room for the offset
        if count < 1:
            raise ValueError(
                f"{last - first} training tokens are too few for windows of task.context={context}: "
                f"a worker needs {2 * context + 1}."
            )
        self._tokens = tokens
        self._first = first
        self._context = context
        self._slack = last - first - 1 - count * context
        self._seed, self._stream = seed, stream
        self.epochs = Epochs(count, seed, stream)

    def take(self, position: int, count: int) -> np.ndarray:
        """Windows at positions position .. position + count - 1 of the stream, int64 [count, context + 1]."""
        epochs, items = self.epochs.take(position, count)
        offsets = {epoch: self._offset(int(epoch)) for epoch in np.unique(epochs)}
        starts = self._first + np.array([offsets[epoch] for epoch in epochs]) + items * self._context
        return np.stack([self._tokens[start : start + self._context + 1] for start in starts]).astype(np.int64)

    def _offset(self, epoch: int) -> int:
        return int(generator(self._seed, self._stream, epoch, _OFFSET).integers(self._slack + 1))


class ValidationWindows(Sequence[Batch]):
    """Batches of consecutive windows that predict every token but the first exactly once.

    `limit` (None: all) bounds the predicted tokens; the windows that are kept are spread evenly over the text. The last
    window may be shorter: it is padded with targets that don't count.
    """

    def __init__(self, tokens: np.ndarray, context: int, batch: int, limit: int | None) -> None:
        predicted = len(tokens) - 1
        if predicted < 1:
            raise ValueError(f"{len(tokens)} validation tokens are too few: raise task.validation_fraction.")
        self._tokens = tokens
        self._context = context
        self._batch = batch
        if limit is None or limit >= predicted:
            self._windows = np.arange(math.ceil(predicted / context))
        else:
            kept = limit // context
            self._windows = (np.arange(kept) * (predicted // context)) // kept

    def __len__(self) -> int:
        return math.ceil(len(self._windows) / self._batch)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | Sequence[Batch]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        first = index % len(self) * self._batch
        windows = self._windows[first : first + self._batch]
        inputs = np.zeros((len(windows), self._context), dtype=np.int64)
        targets = np.full((len(windows), self._context), IGNORED, dtype=np.int64)
        for row, window in enumerate(windows):
            span = self._tokens[window * self._context : (window + 1) * self._context + 1]
            inputs[row, : len(span) - 1] = span[:-1]
            targets[row, : len(span) - 1] = span[1:]
        return {"inputs": torch.from_numpy(inputs), "targets": torch.from_numpy(targets)}


def shards_by_document(tokens: np.ndarray, end_of_text: int, world_size: int) -> list[tuple[int, int]]:
    """Bounds (first, last) of `world_size` runs of whole consecutive documents with about equally many tokens.

    ValueError if there are too few documents for that.
    """
    cuts = [0]
    for worker in range(1, world_size):
        cuts.append(_end_of_document(tokens, end_of_text, len(tokens) * worker // world_size))
    cuts.append(len(tokens))
    shards = list(itertools.pairwise(cuts))
    if any(first >= last for first, last in shards):
        raise ValueError(
            f"Too few documents for task.sharding=by_document with world_size={world_size}: use fewer workers."
        )
    return shards


def _end_of_document(tokens: np.ndarray, end_of_text: int, position: int) -> int:
    """The first end of a document at or behind `position`, counted as the position behind its end-of-text."""
    for first in range(max(position - 1, 0), len(tokens), _SCAN):
        found = np.flatnonzero(tokens[first : first + _SCAN] == end_of_text)
        if len(found):
            return first + int(found[0]) + 1
    return len(tokens)
