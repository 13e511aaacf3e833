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

    Weighted peers, and pairs of many partners, use point-to-point messages on `group`; other groups use one
    process group each, created here in the same order on every rank. Every operation ends within the time-out or raises
    `ExchangeError`. Gradients are averaged by DistributedDataParallel in the backward pass, or without `in_backward`
    when they are all there.
    """

    def __init__(
        self,
        settings: DistributedSettings,
        topology: Topology | None,
        device: torch.device,
        group: dist.ProcessGroup | None = None,
        in_backward: bool = True,
    ):
        super().__init__(settings, device, group)
        self.in_backward = in_backward
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
            dist.all_reduce(total, group=self.group)
        return total.div_(self.size)

    def gather(self, values: Sequence, what: str) -> list:
        """One value a local worker, picklable -> the values of all workers in worker order."""
        return [value for part in self.each_process(list(values), what) for value in part]

    def each_process(self, value: Any, what: str) -> list:
        """One value a process, picklable -> the values of all processes by rank."""
        with self.named(f"{what}: gathering", self.everyone):
            return gather_objects(value, self.group)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return any(self.each_process(flag, "agreeing"))

    def share_first(self, tensors: Sequence[Tensor], what: str) -> None:
        """Overwrite the tensors with those of worker 0's process."""
        with self.named(f"{what}: broadcast from rank 0", self.everyone):
            for tensor in tensors:
                dense = tensor.detach().contiguous()
                dist.broadcast(dense, group_src=0, group=self.group)
                tensor.detach().copy_(dense)

    def wrap(self, model: nn.Module) -> nn.Module:
        """torch's own DistributedDataParallel. Buffers stay local, as they do under gossip."""
        if not self.in_backward:
            return model
        return DistributedDataParallel(
            model,
            process_group=self.group,
            forward_sync_buffers=False,
            gradient_as_bucket_view=True,
            bucket_cap_mb=self.settings.bucket_mib,
            find_unused_parameters=self.settings.find_unused_parameters,
        )

    def average_gradients(self, gradients: list[list[Tensor | None]], parameters: Sequence[Tensor]) -> None:
        """Replace the worker's gradients by the mean; none counts as zero, none of any worker stays None."""
        if self.in_backward:
            return  # the reducer of DistributedDataParallel has done it
        (own,) = gradients
        with self.named("gradient all-reduce", self.everyone):
            present = torch.tensor([g is not None for g in own], dtype=torch.float32, device=self.device)
            dist.all_reduce(present, group=self.group)
            for i, anywhere in enumerate(present.tolist()):
                if anywhere:
                    own[i] = mean = torch.zeros_like(parameters[i]) if (g := own[i]) is None else g.div_(self.size)
                    dist.all_reduce(mean, group=self.group)


def gather_objects(value: Any, group: dist.ProcessGroup | None = None) -> list:
    """One picklable value a process -> the values of all processes by rank."""
    gathered: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(gathered, value, group=group)
    return gathered
