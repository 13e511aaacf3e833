"""Which sentence pairs a worker trains on at a step: batches of similar lengths within a budget of tokens.

An epoch has every pair once. Pairs are sorted by length (where lengths are equal, in another order in each epoch), cut
into batches, and the batches are shuffled. How many batches there are, and of which lengths, is the same in each epoch,
so a step's pairs are found without going through the steps before it. Workers share a batch: its pairs do not depend on
their number.
"""

from functools import lru_cache

import numpy as np

from tasks.common.sampling import generator

ORDER, SHUFFLE = 0, 1


class TokenBatches:
    """Batches of pairs with `lengths` [pairs] (tokens of the longer side), at most `budget` a side over all workers.

    ValueError if the budget does not give every worker a pair in every batch.
    """

    def __init__(self, lengths: np.ndarray, budget: int, world_size: int, seed: int) -> None:
        self._lengths = lengths.astype(np.uint16 if lengths.max() < 1 << 16 else np.int32)
        self._world_size, self._seed = world_size, seed
        longest = int(lengths.max())
        if budget < 2 * world_size * longest:  # twice: the last batch takes pairs from the one before it
            raise ValueError(
                f"task.batch_tokens={budget} is too small for world_size={world_size} workers and sentences of "
                f"{longest} tokens: give at least {2 * world_size * longest}, or a smaller task.max_length."
            )
        if len(lengths) < world_size:
            raise ValueError(
                f"The data set has {len(lengths)} training pairs, fewer than world_size={world_size} workers."
            )
        self._bounds = _bounds(np.sort(lengths)[::-1], budget, world_size)
        self._order = lru_cache(maxsize=2)(self._draw_order)
        self._shuffle = lru_cache(maxsize=2)(self._draw_shuffle)

    @property
    def per_epoch(self) -> int:
        """Batches an epoch."""
        return len(self._bounds) - 1

    def indices(self, step: int, worker: int) -> np.ndarray:
        """The pairs of a worker's batch, longest first."""
        epoch, number = divmod(step, self.per_epoch)
        batch = self._shuffle(epoch)[number]
        return self._order(epoch)[self._bounds[batch] + worker : self._bounds[batch + 1] : self._world_size]

    def _draw_order(self, epoch: int) -> np.ndarray:
        """All pairs, longest first; equal lengths in random order."""
        order = np.arange(len(self._lengths), dtype=np.int32 if len(self._lengths) < 2**31 else np.int64)
        generator(self._seed, ORDER, epoch).shuffle(order)
        return order[np.argsort(self._lengths[order], kind="stable")][::-1]

    def _draw_shuffle(self, epoch: int) -> np.ndarray:
        return generator(self._seed, SHUFFLE, epoch).permutation(self.per_epoch)


def _bounds(lengths: np.ndarray, budget: int, smallest: int) -> np.ndarray:
    """Where batches begin and end among `lengths` (descending): within the budget and of at least `smallest` pairs."""
    bounds = [0]
    while bounds[-1] < len(lengths):
        bounds.append(min(bounds[-1] + budget // int(lengths[bounds[-1]]), len(lengths)))
    if bounds[-1] - bounds[-2] < smallest and len(bounds) > 2:
        bounds[-2] = bounds[-1] - smallest
    return np.array(bounds)
