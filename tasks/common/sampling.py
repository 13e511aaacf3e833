"""Which samples a worker trains on at a step: pure functions of (seed, worker, step), with random access.

[P] and nanoGPT draw random windows with replacement. Here an epoch is a permutation: the counterpart without
replacement, in which every sample is seen once before any is seen twice, whatever the number of workers.
"""

from functools import lru_cache

import numpy as np


def generator(seed: int, *key: int) -> np.random.Generator:
    """Random numbers of their own for every (seed, key); the keys say what they are for."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def local_batch(global_batch: int, world_size: int) -> int:
    """A worker's share of `global_batch` samples; ValueError names the nearest batches that can be shared equally."""
    if global_batch % world_size == 0:
        return global_batch // world_size
    below = global_batch // world_size * world_size
    works = [str(batch) for batch in (below, below + world_size) if batch > 0]
    raise ValueError(
        f"task.global_batch={global_batch} cannot be shared equally by world_size={world_size} workers: "
        f"give {' or '.join(works)}, or another multiple of {world_size}."
    )


def positions(step: int, worker: int, local: int, world_size: int) -> tuple[int, int]:
    """(first position, count) of a worker's batch in the stream that all workers share.

    The workers' batches of a step stand side by side, so their union does not depend on how many workers there are.
    """
    return (step * world_size + worker) * local, local


class Epochs:
    """An endless stream of `size` items: epoch after epoch, each in an order of its own."""

    def __init__(self, size: int, seed: int, stream: int = 0) -> None:
        assert size > 0
        self.size = size
        self._seed = seed
        self._stream = stream
        self._order = lru_cache(maxsize=2)(self._draw_order)  # two: a batch may reach into the next epoch

    def take(self, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """(epochs, items) at positions first .. first + count - 1, each an int64 array [count]."""
        epochs, places = np.divmod(np.arange(first, first + count, dtype=np.int64), self.size)
        items = np.empty(count, dtype=np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            items[here] = self._order(int(epoch))[places[here]]
        return epochs, items

    def _draw_order(self, epoch: int) -> np.ndarray:
        order = np.arange(self.size, dtype=np.int32 if self.size < 2**31 else np.int64)
        generator(self._seed, self._stream, epoch).shuffle(order)
        return order
