"""The exchanges of one rank: rounds as group averages and point-to-point messages, beside the computation."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch import Tensor

from decent_core.engine.place import Place
from decent_core.engine.virtual import Done
from decent_core.topology import GroupPlan, GroupRound, PeerPlan, PeerRound, Round, Topology


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

    def __init__(self, place: Place, topology: Topology | None):
        self.place = place
        self.groups = _create_groups(topology, place) if topology is not None else {}
        self.on_cpu = place.device.type == "cpu"
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="exchange") if self.on_cpu else None
        self.stream = None if self.on_cpu else torch.Stream(device=place.device)
        self.results: dict[int, Tensor] = {}  # by the length of the row
        self.received: Tensor | None = None

    def start(self, rows: Tensor, round_: Round, what: str) -> Done | InFlight:
        plan = round_.plan(self.place.rank)
        if isinstance(plan, GroupPlan) and len(plan.members) == 1:
            return Done(rows)
        row = rows[0]
        if row.numel() not in self.results:
            self.results[row.numel()] = torch.empty_like(row)
        mixed = self.results[row.numel()]
        # The most neighbours that any worker has: both ends of a message must cut the row into the same pieces.
        degree = round_.sources.shape[1] - 1 if isinstance(round_, PeerRound) else 1
        work = (row, mixed, plan, degree, what)
        if self.thread is not None:
            return InFlight(mixed[None], self.thread.submit(self._carry_out, *work), lambda: None)
        current, stream = torch.accelerator.current_stream(), self.stream
        assert stream is not None
        stream.wait_stream(current)
        with stream:
            self._carry_out(*work)
        return InFlight(mixed[None], None, lambda: current.wait_stream(stream))

    def _carry_out(self, row: Tensor, result: Tensor, plan: GroupPlan | PeerPlan, degree: int, what: str) -> None:
        if isinstance(plan, PeerPlan):
            self._combine_peers(row, result, plan, degree, what)
        elif len(plan.members) == 2:
            peer = plan.members[plan.members[0] == self.place.rank]
            self._combine_peers(row, result, PeerPlan(0.5, ((peer, 0.5),), (peer,)), degree, what)
        else:
            self._average_group(row, result, plan, what)

    def _average_group(self, row: Tensor, result: Tensor, plan: GroupPlan, what: str) -> None:
        result.copy_(row)
        with self.place.named(f"{what}: group average", plan.members):
            for bucket in result.split(self._bucket_elements(row)):
                dist.all_reduce(bucket, group=self.groups[plan.members])
        result.div_(len(plan.members))

    def _combine_peers(self, row: Tensor, result: Tensor, plan: PeerPlan, degree: int, what: str) -> None:
        """result <- w_self row + sum over in-neighbours of weight x received, in pieces that bound what is received."""
        elements = min(self._bucket_elements(row), -(-row.numel() // max(1, degree)))
        if self.received is None or self.received.numel() < degree * elements:
            self.received = torch.empty(degree * elements, dtype=row.dtype, device=row.device)
        ranks = sorted({self.place.rank, *plan.sends, *(peer for peer, _ in plan.receives)})
        with self.place.named(f"{what}: exchange with peers", ranks):
            for own, mixed in zip(row.split(elements), result.split(elements), strict=True):
                arrived = [self.received[k * elements :][: own.numel()] for k in range(len(plan.receives))]
                operations = [dist.P2POp(dist.isend, own, peer) for peer in plan.sends]
                receives = zip(arrived, plan.receives, strict=True)
                operations += [dist.P2POp(dist.irecv, tensor, peer) for tensor, (peer, _) in receives]
                works = dist.batch_isend_irecv(operations) if operations else []
                torch.mul(own, plan.self_weight, out=mixed)
                for work in works:
                    work.wait(self.place.timeout) if self.on_cpu else work.wait()
                for tensor, (_, weight) in zip(arrived, plan.receives, strict=True):
                    mixed.add_(tensor, alpha=weight)

    def _bucket_elements(self, row: Tensor) -> int:
        return max(1, int(self.place.settings.bucket_mib * 2**20) // row.element_size())


def _create_groups(topology: Topology, place: Place) -> dict[tuple[int, ...], dist.ProcessGroup | None]:
    """A process group for each set of three or more workers that the topology averages; the default one for all."""
    groups: dict[tuple[int, ...], dist.ProcessGroup | None] = {}
    for step in range(topology.period):
        round_ = topology.round(step)
        for array in round_.groups if isinstance(round_, GroupRound) else ():
            for members in map(tuple, array.tolist() if array.shape[1] > 2 else ()):
                if members not in groups:
                    groups[members] = None if len(members) == place.size else _new_group(members, place)
    return groups


def _new_group(members: tuple[int, ...], place: Place) -> dist.ProcessGroup | None:
    group = dist.new_group(list(members), timeout=place.timeout)
    return group if isinstance(group, dist.ProcessGroup) else None  # ranks outside get a placeholder
