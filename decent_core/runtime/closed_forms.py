"""Time of an iteration without noise, as formulas. Any unit of time will do, if all arguments have the same."""

from dataclasses import dataclass
from typing import Literal

Convention = Literal["A", "B"]


@dataclass(frozen=True)
class Workload:
    """What a worker computes in one iteration, as time per bucket of parameters."""

    buckets: int
    forward: float
    backward: float
    update: float

    def __post_init__(self) -> None:
        if self.buckets < 1:
            raise ValueError(f"buckets={self.buckets}: must be at least 1")
        for name in ("forward", "backward", "update"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}={getattr(self, name)}: a time must not be negative")

    @property
    def compute(self) -> float:
        """Computing time of one bucket."""
        return self.forward + self.backward + self.update


def paper_workload(buckets: int, update: float, world_size: int, convention: Convention = "A") -> Workload:
    """The workload of [P] in units of 1/N of a global batch's forward pass: forward 1, backward 2 for a bucket.

    `update` is [P]'s theta. A bucket's update takes theta/N by convention A, which the paper's knee and figure need,
    and theta by convention B, which its limit 1 + gamma/theta needs.
    """
    return Workload(buckets, 1.0, 2.0, update if convention == "A" else update * world_size)


def allreduce_time(work: Workload, gamma: float) -> float:
    """An iteration with All-Reduce, `gamma` for one bucket; the last bucket's is never hidden."""
    b = work.buckets
    return b * work.forward + max(b * work.backward + gamma, work.backward + b * gamma) + b * work.update


def gossip_time(work: Workload, exchange: float) -> float:
    """An iteration with gossip, `exchange` (omega gamma in [P]) for one bucket.

    With one bucket, nothing but the forward and backward pass is there to hide the exchange under.
    """
    if work.buckets == 1:
        return max(work.forward + work.backward, exchange) + work.update
    return work.buckets * max(work.compute, exchange)


def best_speedup(work: Workload, gamma: float) -> float:
    """All-Reduce's time over that of gossip whose exchange is hidden entirely; for two buckets or more."""
    return allreduce_time(work, gamma) / gossip_time(work, 0.0)
