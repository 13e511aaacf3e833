"""The average of a row over a group by gloo, without a thread of ours: gloo's own threads take what is queued."""

from collections import deque
from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from decent_core.engine.chunks import NOT_THERE, Transfer
from decent_core.engine.rank_context import RankContext


class GroupAverage:
    """A `Pending` whose pieces are queued as soon as they are there, and divided when somebody asks for them."""

    def __init__(
        self,
        transfer: Transfer,
        group: dist.ProcessGroup | None,
        members: Sequence[int],
        elements: int,
        context: RankContext,
    ):
        self.transfer, self.group, self.members, self.context = transfer, group, members, context
        self.mixed = transfer.result[None]
        self.to_do = deque(transfer.cut(elements))
        self.under_way: deque[tuple[int, Tensor, dist.Work]] = deque()
        self.known = 0  # elements that are mixed
        if transfer.prefix is None:
            self._queue(transfer.row.numel())
        else:
            transfer.prefix.listener = self._queue

    def wait(self) -> Tensor:
        self.completed(self.mixed.shape[1])
        return self.mixed

    def completed(self, least: int) -> int:
        while self.under_way:
            end, mixed, work = self.under_way[0]
            if self.known >= least and not work.is_completed():
                break
            with self.context.named(self._operation, self.members):
                work.wait()
            mixed.div_(len(self.members))
            self.under_way.popleft()
            self.known = end
        if self.known < least:
            raise RuntimeError(NOT_THERE)
        return self.known

    def _queue(self, elements: int) -> None:
        with self.context.named(self._operation, self.members):
            while self.to_do and self.to_do[0][0] <= elements:
                end, own, mixed = self.to_do.popleft()
                mixed.copy_(own)
                work = dist.all_reduce(mixed, group=self.group, async_op=True)
                assert work is not None
                self.under_way.append((end, mixed, work))

    @property
    def _operation(self) -> str:
        return f"{self.transfer.what}: group average"
