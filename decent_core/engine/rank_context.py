"""The rank, device and settings of this process, and errors that name the operation and ranks of a failed exchange."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from decent_core.engine.settings import DistributedSettings


class ExchangeError(RuntimeError):
    """A peer did not answer in time, or a connection broke; the message names the operation and the ranks."""


class RankContext:
    """This process's rank, device and settings in a process group (None: the default one); ranks are the group's."""

    def __init__(self, settings: DistributedSettings, device: torch.device, group: dist.ProcessGroup | None = None):
        self.settings, self.device, self.group = settings, device, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.timeout = timedelta(seconds=settings.timeout_seconds)

    @contextmanager
    def named(self, operation: str, ranks: Sequence[int]) -> Iterator[None]:
        """Turn a communication failure inside the block into an `ExchangeError` that names `operation` and `ranks`."""
        try:
            yield
        except RuntimeError as error:
            if isinstance(error, ExchangeError) or not _is_communication_failure(error):
                raise
            reason = str(error).splitlines()[0]
            raise ExchangeError(
                f"{operation} between ranks {list(ranks)} did not complete on rank {self.rank}"
                f" (time-out {self.settings.timeout_seconds:g} s): {reason}"
            ) from error


def _is_communication_failure(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in text for word in ("gloo", "nccl", "timed out", "timeout"))
