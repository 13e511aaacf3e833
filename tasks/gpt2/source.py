"""Where documents come from: the embedded text, the Hugging Face hub or a local folder. Their order is fixed."""

import json
import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from tasks import assets

PIECE = 256  # documents of a few kB that are tokenised at a time
SPEECHES = 16  # the same for the addresses, which are longer

#: texts, and the state from which `pieces` continues behind them (JSON values)
Piece = tuple[list[str], Any]


class Source(Protocol):
    """Documents in a fixed order."""

    count: int

    def pieces(self, state: Any) -> Iterator[Piece]:
        """All documents behind `state` (None: from the first)."""

    def held_out(self, fraction: float, seed: int) -> np.ndarray:
        """Which documents are for validation, int64, in the order in which they are written."""


def open_source(dataset: str) -> Source:
    """The documents of `task.dataset`; ValueError if there are none or they have no text."""
    return Embedded() if dataset == "sotu" else Streamed(dataset)


class Embedded:
    """The State of the Union addresses, from the oldest to the latest."""

    def __init__(self) -> None:
        self.texts = [json.loads(line)["text"] for line in assets.read("sotu").decode().splitlines()]
        self.count = len(self.texts)

    def pieces(self, state: Any) -> Iterator[Piece]:
        for first in range(state or 0, self.count, SPEECHES):
            yield self.texts[first : first + SPEECHES], first + SPEECHES

    def held_out(self, fraction: float, seed: int) -> np.ndarray:
        """One document from each of equally long periods, so that every era is validated."""
        periods = np.array_split(np.arange(self.count), math.ceil(fraction * self.count))
        draw = np.random.default_rng(seed)
        return np.array([draw.choice(period) for period in periods])

    def training_texts(self, fraction: float, seed: int) -> list[str]:
        """The documents that are not held out."""
        held_out = set(self.held_out(fraction, seed).tolist())
        return [text for index, text in enumerate(self.texts) if index not in held_out]


class Streamed:
    """Split `train` of a data set with a column `text`, read through `datasets` without keeping it."""

    def __init__(self, dataset: str) -> None:
        import datasets  # takes a second to import; the embedded text doesn't need it

        datasets.disable_progress_bars()
        self.name = dataset
        try:
            self._stream = datasets.load_dataset(dataset, split="train", streaming=True)
            first = next(iter(self._stream), None)
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"task.dataset={dataset} can't be read ({error}). Give a name on the Hugging Face hub that this "
                "machine can reach, or a local folder of .parquet or .jsonl files with a column `text`."
            ) from error
        if first is None or not isinstance(first.get("text"), str):
            raise ValueError(
                f"task.dataset={dataset} has no documents in a column `text`; its columns are {sorted(first or {})}."
            )
        self._stream = self._stream.select_columns(["text"])
        self.count = self._count()

    def _count(self) -> int:
        splits = self._stream.info.splits
        if splits and "train" in splits and splits["train"].num_examples:
            return splits["train"].num_examples
        return sum(len(batch["text"]) for batch in self._stream.iter(PIECE))  # a folder says nothing: read it once

    def pieces(self, state: Any) -> Iterator[Piece]:
        if state is not None:
            self._stream.load_state_dict(state)
        try:
            for batch in self._stream.iter(PIECE):
                yield batch["text"], self._stream.state_dict()
        except OSError as error:
            raise ValueError(
                f"Reading task.dataset={self.name} was interrupted ({error}). "
                "The same command continues where it stopped."
            ) from error

    def held_out(self, fraction: float, seed: int) -> np.ndarray:
        """The test split of `train_test_split(test_size=fraction, seed=seed, shuffle=True)`, in its order.

        With fraction .0005 and seed 2357 that is nanoGPT's validation set.
        """
        return np.random.default_rng(seed).permutation(self.count)[: math.ceil(fraction * self.count)]
