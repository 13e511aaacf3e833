"""Settings of the engines, validated before anything is built. The values stand in `conf/`, no defaults here."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class VirtualSettings:
    """N workers in one process."""

    name: Literal["virtual"]


@dataclass(frozen=True)
class DistributedSettings:
    """One process a worker, over torch.distributed."""

    name: Literal["distributed"]
    timeout_seconds: float  # an operation that takes longer ends the run with an error that names it
    bucket_mib: float  # size of the pieces in which parameters are exchanged
    find_unused_parameters: (
        bool  # for DistributedDataParallel (method=allreduce): some parameters get no gradient in some steps
    )

    def __post_init__(self) -> None:
        for key in ("timeout_seconds", "bucket_mib"):
            if getattr(self, key) <= 0:
                raise ValueError(f"engine.{key}={getattr(self, key)}: must be greater than 0")


EngineSettings = VirtualSettings | DistributedSettings
