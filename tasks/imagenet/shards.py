"""Which images a worker trains on: one stream that all workers share, or classes of their own."""

import numpy as np

from tasks.common.sampling import Epochs, generator, local_batch, positions
from tasks.imagenet.settings import Settings

SPLIT_STREAM = 1_000_003  # random numbers of the split; beyond any worker's stream


class Sampler:
    """The training images of every (step, worker).

    `labels` [n] must be sorted. IID: the workers' batches of a step stand side by side in one stream, so their union
    does not depend on how many workers there are. Otherwise each worker shuffles its own equally large share, so the
    mean of the workers' objectives is the objective over all images; up to N - 1 images are left out.
    """

    def __init__(self, settings: Settings, labels: np.ndarray, seed: int, world_size: int) -> None:
        self.local = local_batch(settings.global_batch, world_size)
        self._world_size = world_size
        self._shards: list[np.ndarray] | None = None
        if settings.sharding == "iid":
            self._streams = [Epochs(len(labels), seed)]
            return
        if len(labels) < world_size:
            raise ValueError(f"{len(labels)} images cannot be shared out to {world_size} workers.")
        if settings.sharding == "by_label":
            self._shards = by_label(labels, world_size)
        else:
            assert settings.dirichlet_alpha is not None
            self._shards = dirichlet(labels, world_size, settings.dirichlet_alpha, generator(seed, SPLIT_STREAM))
        self._streams = [Epochs(len(shard), seed, worker) for worker, shard in enumerate(self._shards)]

    @property
    def epoch(self) -> int:
        """Images that the workers together see in an epoch."""
        return sum(stream.size for stream in self._streams)

    def items(self, step: int, worker: int) -> np.ndarray:
        """Indices [local] of the worker's images."""
        if self._shards is None:
            first, count = positions(step, worker, self.local, self._world_size)
            return self._streams[0].take(first, count)[1]
        return self._shards[worker][self._streams[worker].take(step * self.local, self.local)[1]]


def by_label(labels: np.ndarray, workers: int) -> list[np.ndarray]:
    """Equal runs of the images sorted by label: a worker sees few classes, and few workers see a class."""
    assert bool(np.all(labels[:-1] <= labels[1:]))
    size = len(labels) // workers
    return [np.arange(worker * size, (worker + 1) * size) for worker in range(workers)]


def dirichlet(labels: np.ndarray, workers: int, alpha: float, draw: np.random.Generator) -> list[np.ndarray]:
    """Equal shares whose mixtures of classes are drawn from a symmetric Dirichlet(alpha); no image twice.

    A worker draws a mixture of the classes that the workers before it have left, as Hsu, Qi and Brown 2019 (arXiv
    1909.06335) do, and another one when a class runs out: alpha -> infinity gives IID shares, alpha -> 0 as few
    classes a worker as possible.
    """
    left = [draw.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    shards = []
    for _ in range(workers):
        parts: list[np.ndarray] = []
        missing = len(labels) // workers
        while missing:
            left = [rest for rest in left if len(rest)]
            counts = draw.multinomial(missing, draw.dirichlet(np.full(len(left), alpha)))
            taken = [rest[:count] for rest, count in zip(left, counts, strict=True)]
            left = [rest[count:] for rest, count in zip(left, counts, strict=True)]
            missing -= sum(map(len, taken))
            parts += taken
        shards.append(np.sort(np.concatenate(parts)))
    return shards
