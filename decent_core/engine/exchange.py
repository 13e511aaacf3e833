"""The exchanges of one rank: rounds as group averages and point-to-point messages, beside the computation."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch import Tensor

from decent_core.engine.chunks import InFlight, ReadyPrefix, Transfer
from decent_core.engine.group_average import GroupAverage
from decent_core.engine.rank_context import RankContext
from decent_core.methods import Done, Pending
from decent_core.topology import GroupPlan, GroupRound, PeerPlan, PeerRound, Round, Topology

#: pieces of a row that are on their way between peers at once, so that links do not rest between two of them; and over
#: gloo, which sends a message as fast as it can, their largest size: more overruns the queues in front of slow links
AHEAD, PIECE_BYTES = 2, 2**18
#: pairs get process groups of their own if no worker has more partners than this; gloo's all-reduce fills slow links
#: better than messages do
MOST_PARTNERS = 16


class Exchange:
    """Communication of one rank, beside its computation.

    On the CPU, averages of groups are queued with gloo, and a thread drives its messages; on an accelerator all is
    queued on a side stream. Buffers: D for the mixed row and at most D for what is being received, both kept from step
    to step. One exchange at a time; one with a `ReadyPrefix` may begin before the last has ended, and overwrites
    its mixed row only as far as its own row is final.
    """

    def __init__(self, context: RankContext, topology: Topology | None):
        self.context = context
        self.groups = _create_groups(topology, context) if topology is not None else {}
        self.on_cpu = context.device.type == "cpu"
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="exchange") if self.on_cpu else None
        self.stream = None if self.on_cpu else torch.Stream(device=context.device)
        self.results: dict[int, Tensor] = {}  # by the length of the row
        self.received: Tensor | None = None

    def start(self, rows: Tensor, round_: Round, what: str, prefix: ReadyPrefix | None = None) -> Pending:
        """Start this rank's part of the round for rows [1, D]; with a `prefix` (CPU only) as they become final."""
        plan = round_.plan(self.context.rank)
        if isinstance(plan, GroupPlan) and len(plan.members) == 1:
            return Done(rows)
        row = rows[0]
        if row.numel() not in self.results:
            self.results[row.numel()] = torch.empty_like(row)
        transfer = Transfer(row, self.results[row.numel()], what, prefix)
        if self.on_cpu and isinstance(plan, GroupPlan) and plan.members in self.groups:
            group, elements = self.groups[plan.members], self._bucket_elements(row)
            return GroupAverage(transfer, group, plan.members, elements, self.context)
        # The most neighbours that any worker has: both ends of a message must cut the row into the same pieces.
        degree = round_.sources.shape[1] - 1 if isinstance(round_, PeerRound) else 1
        mixing = self._mix(transfer, plan, degree)
        if self.thread is not None:
            return InFlight(transfer, self.thread.submit(transfer.carry_out, mixing), lambda: None)
        assert prefix is None, "over an accelerator rows are exchanged whole"
        current, stream = torch.accelerator.current_stream(), self.stream
        assert stream is not None
        stream.wait_stream(current)
        with stream:
            transfer.carry_out(mixing)
        return InFlight(transfer, None, lambda: current.wait_stream(stream))

    def _mix(self, transfer: Transfer, plan: GroupPlan | PeerPlan, degree: int) -> Iterator[int]:
        """Mixes the row from end to start; yields, piece by piece, how many elements are done."""
        if isinstance(plan, PeerPlan):
            return self._combine_peers(transfer, plan, degree)
        if plan.members not in self.groups:
            peer = plan.members[plan.members[0] == self.context.rank]
            return self._combine_peers(transfer, PeerPlan(0.5, ((peer, 0.5),), (peer,)), degree)
        return self._average_group(transfer, plan)

    def _average_group(self, transfer: Transfer, plan: GroupPlan) -> Iterator[int]:
        elements, group, done = self._bucket_elements(transfer.row), self.groups[plan.members], 0
        with self.context.named(f"{transfer.what}: group average", plan.members):
            works = []
            for own, mixed in transfer.pieces(elements):
                mixed.copy_(own)
                works.append((mixed, dist.all_reduce(mixed, group=group, async_op=True)))
            for mixed, work in works:
                work.wait()
                mixed.div_(len(plan.members))
                done += mixed.numel()
                yield done

    def _combine_peers(self, transfer: Transfer, plan: PeerPlan, degree: int) -> Iterator[int]:
        """result <- w_self row + sum over in-neighbours of weight x received.

        The first neighbour's row is received in `result`, those of the others in pieces that bound the memory.
        """
        row, others, done = transfer.row, max(0, degree - 1), 0
        elements = self._bucket_elements(row)
        if self.on_cpu:
            elements = max(1, min(elements, PIECE_BYTES // row.element_size()))
        if others:
            elements = min(elements, -(-row.numel() // (AHEAD * others)))
        if self.received is None or self.received.numel() < AHEAD * others * elements:
            self.received = torch.empty(AHEAD * others * elements, dtype=row.dtype, device=row.device)
        ranks = sorted({self.context.rank, *plan.sends, *(peer for peer, _ in plan.receives)})
        under_way: deque[tuple[list[dist.Work], list[Tensor], Tensor]] = deque()
        with self.context.named(f"{transfer.what}: exchange with peers", ranks):
            for number, (own, mixed) in enumerate(transfer.pieces(elements)):
                if len(under_way) == AHEAD:
                    done += self._finish_piece(*under_way.popleft(), plan)
                    yield done
                buffers = self.received[number % AHEAD * others * elements :].split(elements) if others else ()
                arriving = [mixed, *(buffer[: own.numel()] for buffer in buffers)][: len(plan.receives)]
                under_way.append((self._start_piece(own, arriving, plan, number), [mixed, *arriving[1:]], own))
            while under_way:
                done += self._finish_piece(*under_way.popleft(), plan)
                yield done

    def _start_piece(self, own: Tensor, arriving: list[Tensor], plan: PeerPlan, number: int) -> list[dist.Work]:
        operations = [self._message(dist.isend, own, peer, number) for peer in plan.sends]
        receives = zip(arriving, plan.receives, strict=True)
        operations += [self._message(dist.irecv, tensor, peer, number) for tensor, (peer, _) in receives]
        return dist.batch_isend_irecv(operations) if operations else []

    def _message(self, direction: Callable, tensor: Tensor, peer: int, tag: int) -> dist.P2POp:
        return dist.P2POp(direction, tensor, group=self.context.group, tag=tag, group_peer=peer)

    def _finish_piece(self, works: list[dist.Work], completed: list[Tensor], own: Tensor, plan: PeerPlan) -> int:
        """Wait for a piece and combine it into the first of `completed`; returns its length."""
        for work in works:
            work.wait(self.context.timeout) if self.on_cpu else work.wait()
        mixed, *others = completed
        if not plan.receives:
            torch.mul(own, plan.self_weight, out=mixed)
            return mixed.numel()
        (_, first), *rest = plan.receives
        mixed.mul_(first).add_(own, alpha=plan.self_weight)
        for tensor, (_, weight) in zip(others, rest, strict=True):
            mixed.add_(tensor, alpha=weight)
        return mixed.numel()

    def _bucket_elements(self, row: Tensor) -> int:
        return max(1, int(self.context.settings.bucket_mib * 2**20) // row.element_size())


def _create_groups(topology: Topology, context: RankContext) -> dict[tuple[int, ...], dist.ProcessGroup | None]:
    """A process group for each set of workers that the topology averages; the default one for all.

    Pairs may have none, and then exchange messages.
    """
    members: dict[tuple[int, ...], None] = {}
    for step in range(topology.period):
        round_ = topology.round(step)
        for array in round_.groups if isinstance(round_, GroupRound) else ():
            members |= dict.fromkeys(map(tuple, array.tolist() if array.shape[1] > 1 else ()))
    partners = Counter(rank for group in members if len(group) == 2 for rank in group)
    pairs = context.device.type == "cpu" and max(partners.values(), default=0) <= MOST_PARTNERS
    return {
        group: context.group if len(group) == context.size else _new_group(group, context)
        for group in members
        if pairs or len(group) > 2
    }


def _new_group(members: tuple[int, ...], context: RankContext) -> dist.ProcessGroup | None:
    if context.group is None:
        group = dist.new_group(list(members), timeout=context.timeout)
    elif context.rank in members:  # ranks outside context.group do not come here
        ranks = [dist.get_global_rank(context.group, member) for member in members]
        group = dist.new_group(ranks, timeout=context.timeout, use_local_synchronization=True)
    else:
        return None
    return group if isinstance(group, dist.ProcessGroup) else None  # ranks outside get a placeholder
