"""One process a worker, over torch.distributed: rounds become group averages and point-to-point exchanges."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from decent_core.engine.chunks import ReadyPrefix
from decent_core.engine.exchange import Exchange
from decent_core.engine.rank_context import RankContext
from decent_core.engine.settings import DistributedSettings
from decent_core.methods import Pending
from decent_core.topology import Round, Topology


class DistributedCommunicator(RankContext):
    """This process's place among `size` workers.

    Weighted peers, and pairs of many partners, use point-to-point messages on the default group; other groups use one
    process group each, created here in the same order on every rank. Every operation ends within the time-out or raises
    `ExchangeError`.
    """

    def __init__(self, settings: DistributedSettings, topology: Topology | None, device: torch.device):
        super().__init__(settings, device)
        self.processes = self.size
        self.local_workers: Sequence[int] = [self.rank]
        self.exchange = Exchange(self, topology)

    @property
    def everyone(self) -> range:
        return range(self.size)

    @property
    def takes_ready_prefix(self) -> bool:
        """Not on an accelerator: there an update is queued in less time than its first piece would gain."""
        return self.exchange.on_cpu

    def start_mix(self, rows: Tensor, round_: Round, what: str, prefix: ReadyPrefix | None = None) -> Pending:
        """Start this rank's part of the round for rows [1, D]."""
        return self.exchange.start(rows, round_, what, prefix)

    def mean(self, rows: Tensor, what: str) -> Tensor:
        """The mean over all workers [D] of rows [1, D]."""
        total = rows[0].clone()
        with self.named(f"{what}: mean over all workers", self.everyone):
            dist.all_reduce(total)
        return total.div_(self.size)

    def gather(self, values: Sequence, what: str) -> list:
        """One value a local worker, picklable -> the values of all workers in worker order."""
        return [value for part in self.each_process(list(values), what) for value in part]

    def each_process(self, value: Any, what: str) -> list:
        """One value a process, picklable -> the values of all processes by rank."""
        with self.named(f"{what}: gathering", self.everyone):
            return gather_objects(value)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return any(self.each_process(flag, "agreeing"))

    def share_first(self, tensors: Sequence[Tensor], what: str) -> None:
        """Overwrite the tensors with those of worker 0's process."""
        with self.named(f"{what}: broadcast from rank 0", self.everyone):
            for tensor in tensors:
                dense = tensor.detach().contiguous()
                dist.broadcast(dense, src=0)
                tensor.detach().copy_(dense)

    def wrap(self, model: nn.Module) -> nn.Module:
        """torch's own DistributedDataParallel. Buffers stay local, as they do under gossip."""
        return DistributedDataParallel(
            model,
            forward_sync_buffers=False,
            gradient_as_bucket_view=True,
            bucket_cap_mb=self.settings.bucket_mib,
            find_unused_parameters=self.settings.find_unused_parameters,
        )

    def average_gradients(self, gradients: list[list[Tensor | None]]) -> None:
        """The reducer of DistributedDataParallel has done it in the backward pass."""


def gather_objects(value: Any) -> list:
    """One picklable value a process -> the values of all processes by rank."""
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered
