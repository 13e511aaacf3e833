"""One process a worker, over torch.distributed: rounds become group averages and point-to-point exchanges."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from decent_core.engine.virtual import Done
from decent_core.settings import DistributedSettings
from decent_core.topology import GroupPlan, GroupRound, PeerPlan, Round, Topology


class ExchangeError(RuntimeError):
    """A peer did not answer in time, or a connection broke; the message names the operation and the ranks."""


class DistributedWorld:
    """This process's place among `size` workers.

    Pairs and weighted peers use point-to-point messages on the default group; groups of three and more use one process
    group each, created here in the same order on every rank. Every operation ends within the time-out or raises
    `ExchangeError`.
    """

    def __init__(self, settings: DistributedSettings, topology: Topology | None, device: torch.device):
        self.settings, self.device = settings, device
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.processes, self.local_workers = self.size, [self.rank]
        self.timeout = timedelta(seconds=settings.timeout_seconds)
        self.exchange = Exchange(self, topology)

    @contextmanager
    def named(self, operation: str, ranks: Sequence[int]) -> Iterator[None]:
        """Turn a communication failure inside into an `ExchangeError` that says what it was and who took part."""
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

    @property
    def everyone(self) -> range:
        return range(self.size)

    def start_mix(self, rows: Tensor, round_: Round, what: str) -> "Done | InFlight":
        """Start this rank's part of the round for rows [1, D]."""
        return self.exchange.start(rows, round_, what)

    def mean(self, rows: Tensor, what: str) -> Tensor:
        """The mean over all workers [D] of rows [1, D]."""
        total = rows[0].clone()
        with self.named(f"{what}: mean over all workers", self.everyone):
            dist.all_reduce(total)
        return total.div_(self.size)

    def gather(self, values: Sequence, what: str) -> list:
        """One value a local worker, picklable -> the values of all workers in worker order."""
        gathered: list[Any] = [None] * self.size
        with self.named(f"{what}: gathering", self.everyone):
            dist.all_gather_object(gathered, list(values))
        return [value for part in gathered for value in part]

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return any(self.gather([flag], "agreeing"))

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
            broadcast_buffers=False,
            gradient_as_bucket_view=True,
            bucket_cap_mb=self.settings.bucket_mib,
            find_unused_parameters=self.settings.find_unused_parameters,
        )

    def average_gradients(self, gradients: list[list[Tensor | None]]) -> None:
        """The reducer of DistributedDataParallel has done it in the backward pass."""


def _is_communication_failure(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in text for word in ("gloo", "nccl", "timed out", "timeout"))


class InFlight:
    """An exchange that a communication thread or stream carries out."""

    def __init__(self, result: Tensor, future: Future | None, finish: Callable[[], None]):
        self.result, self.future, self.finish = result, future, finish

    def wait(self) -> Tensor:
        if self.future is not None:
            self.future.result()
        self.finish()
        return self.result


class Exchange:
    """First-in-first-out communication of one rank, beside its computation.

    On the CPU a thread of its own drives gloo; on an accelerator the operations are queued on a side stream. Buffers: D
    for the mixed row and at most D for what is being received, both kept from step to step. One exchange at a time.
    """

    def __init__(self, world: DistributedWorld, topology: Topology | None):
        self.world = world
        self.groups = _create_groups(topology, world) if topology is not None else {}
        self.on_cpu = world.device.type == "cpu"
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="exchange") if self.on_cpu else None
        self.stream = None if self.on_cpu else torch.Stream(device=world.device)
        self.results: dict[int, Tensor] = {}  # by the length of the row
        self.received: Tensor | None = None

    def start(self, rows: Tensor, round_: Round, what: str) -> Done | InFlight:
        plan = round_.plan(self.world.rank)
        if isinstance(plan, GroupPlan) and len(plan.members) == 1:
            return Done(rows)
        row = rows[0]
        if row.numel() not in self.results:
            self.results[row.numel()] = torch.empty_like(row)
        mixed = self.results[row.numel()]
        work = self._average_group if isinstance(plan, GroupPlan) else self._combine_peers
        if self.thread is not None:
            return InFlight(mixed[None], self.thread.submit(work, row, mixed, plan, what), lambda: None)
        assert self.stream is not None
        current = torch.accelerator.current_stream()
        self.stream.wait_stream(current)
        with self.stream:
            work(row, mixed, plan, what)
        return InFlight(mixed[None], None, lambda: current.wait_stream(self.stream))

    def _average_group(self, row: Tensor, result: Tensor, plan: GroupPlan, what: str) -> None:
        if len(plan.members) == 2:
            peer = plan.members[plan.members[0] == self.world.rank]
            return self._combine_peers(row, result, PeerPlan(0.5, ((peer, 0.5),), (peer,)), what)
        result.copy_(row)
        with self.world.named(f"{what}: group average", plan.members):
            for bucket in result.split(self._bucket_elements(row)):
                dist.all_reduce(bucket, group=self.groups[plan.members])
        result.div_(len(plan.members))

    def _combine_peers(self, row: Tensor, result: Tensor, plan: PeerPlan, what: str) -> None:
        """result <- w_self row + sum over in-neighbours of weight x received, bucket by bucket."""
        degree = max(1, len(plan.receives))
        elements = min(self._bucket_elements(row), -(-row.numel() // degree))
        if self.received is None or self.received.numel() < degree * elements:
            self.received = torch.empty(degree * elements, dtype=row.dtype, device=row.device)
        ranks = sorted({self.world.rank, *plan.sends, *(peer for peer, _ in plan.receives)})
        with self.world.named(f"{what}: exchange with peers", ranks):
            for own, mixed in zip(row.split(elements), result.split(elements), strict=True):
                arrived = [self.received[k * elements :][: own.numel()] for k in range(len(plan.receives))]
                operations = [dist.P2POp(dist.isend, own, peer) for peer in plan.sends]
                receives = zip(arrived, plan.receives, strict=True)
                operations += [dist.P2POp(dist.irecv, tensor, peer) for tensor, (peer, _) in receives]
                works = dist.batch_isend_irecv(operations) if operations else []
                torch.mul(own, plan.self_weight, out=mixed)
                for work in works:
                    work.wait(self.world.timeout) if self.on_cpu else work.wait()
                for tensor, (_, weight) in zip(arrived, plan.receives, strict=True):
                    mixed.add_(tensor, alpha=weight)

    def _bucket_elements(self, row: Tensor) -> int:
        return max(1, int(self.world.settings.bucket_mib * 2**20) // row.element_size())


def _create_groups(topology: Topology, world: DistributedWorld) -> dict[tuple[int, ...], dist.ProcessGroup | None]:
    """A process group for each set of three or more workers that the topology averages; all workers: the default group."""
    groups: dict[tuple[int, ...], dist.ProcessGroup | None] = {}
    for step in range(topology.period):
        round_ = topology.round(step)
        for array in round_.groups if isinstance(round_, GroupRound) else ():
            for members in map(tuple, array.tolist() if array.shape[1] > 2 else ()):
                if members not in groups:
                    whole = len(members) == world.size
                    groups[members] = None if whole else dist.new_group(list(members), timeout=world.timeout)
    return groups
