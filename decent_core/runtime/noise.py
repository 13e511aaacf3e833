"""Random factors on computing times, and workers that are always slower than others."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from decent_core.topology.rounds import Floats

Granularity = Literal["pass", "bucket", "iteration"]
LARGEST_DEVIATION = 0.5


@dataclass(frozen=True, eq=False)
class Noise:
    """Factors from a normal of mean 1 and this variance, cut to [0.5, 1.5]: a pure function of (seed, iteration).

    `granularity` says how much one factor covers: a forward or backward pass, a bucket of either, or the iteration.
    `slowdown` [N] multiplies each worker's computing times in every iteration: persistent stragglers.
    """

    variance: float = 0.0
    granularity: Granularity = "pass"
    seed: int = 0
    slowdown: Floats | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.variance <= 1:
            raise ValueError(f"variance={self.variance}: must lie between 0 and 1 (factors are cut to 0.5 .. 1.5)")

    def factors(self, iteration: int, workers: int, buckets: int) -> tuple[Floats, Floats]:
        """Factors on the forward pass [N] and on the backward pass of each bucket [b, N] in one iteration."""
        slow = np.ones(workers) if self.slowdown is None else self.slowdown
        if not self.variance:
            return slow, np.broadcast_to(slow, (buckets, workers))
        drawn = self._draw(iteration, workers, buckets) * slow
        if self.granularity == "bucket":
            return drawn[:buckets].mean(axis=0), drawn[buckets:]
        return drawn[0], np.broadcast_to(drawn[-1], (buckets, workers))

    def _draw(self, iteration: int, workers: int, buckets: int) -> Floats:
        rows = {"iteration": 1, "pass": 2, "bucket": 2 * buckets}[self.granularity]
        generator = np.random.default_rng((self.seed, iteration))
        deviations = generator.normal(scale=self.variance**0.5, size=(rows, workers))
        while (outside := np.abs(deviations) > LARGEST_DEVIATION).any():
            deviations[outside] = generator.normal(scale=self.variance**0.5, size=int(outside.sum()))
        return 1 + deviations
