"""All N workers in this process: mixing is a product of the round's matrix with the rows."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from decent_core.engine.chunks import ReadyPrefix
from decent_core.methods import Done
from decent_core.topology import GroupRound, Round

CHUNK = 1 << 18  # columns multiplied at once: bounds the temporary memory to N x CHUNK elements


class _Deferred(Done):
    """Mixes when it is waited for, so that the un-mixed rows stay in place until then without a copy."""

    def __init__(self, rows: Tensor, round_: Round):
        super().__init__(rows)
        self.round = round_

    def wait(self) -> Tensor:
        return mix_rows(self.mixed, self.round)


def mix_rows(rows: Tensor, round_: Round) -> Tensor:
    """rows <- W rows in place, for rows [N, D]; a round of uniform groups is computed as group means."""
    if isinstance(round_, GroupRound):
        for members in (group for groups in round_.groups if groups.shape[1] > 1 for group in groups.tolist()):
            first, *others = (rows[i] for i in members)
            mean = first.clone()
            for other in others:
                mean += other
            mean /= len(members)
            for i in members:
                rows[i] = mean
    else:
        weights = torch.from_numpy(round_.matrix()).to(rows)
        for columns in rows.split(CHUNK, dim=1):
            columns.copy_(weights @ columns)
    return rows


class VirtualCommunicator:
    """N workers in one process; memory N x (parameters + gradients + optimizer state)."""

    processes = 1
    rank = 0

    def __init__(self, size: int):
        self.size = size
        self.local_workers: Sequence[int] = range(size)

    @property
    def takes_ready_prefix(self) -> bool:
        """Whether `start_mix` can start with rows that are still being made."""
        return False

    def named(self, operation: str, ranks: Sequence[int]) -> AbstractContextManager[None]:
        """Names a communication failure inside; here nothing is sent, so nothing can fail."""
        return nullcontext()

    def start_mix(self, rows: Tensor, round_: Round, what: str, prefix: ReadyPrefix | None = None) -> Done:
        """Mix `rows` [N, D] through the round; the work is done when the result is asked for."""
        assert prefix is None, "all rows must be there"
        return _Deferred(rows, round_)

    def mean(self, rows: Tensor, what: str) -> Tensor:
        """The mean over all workers [D] of rows [N, D]."""
        return rows.mean(0)

    def gather(self, values: Sequence, what: str) -> list:
        """One value a local worker, picklable -> the values of all workers in worker order."""
        return list(values)

    def each_process(self, value: Any, what: str) -> list:
        """One value a process, picklable -> the values of all processes by rank."""
        return [value]

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return flag

    def share_first(self, tensors: Sequence[Tensor], what: str) -> None:
        """Overwrite the tensors with those of worker 0's process."""

    def wrap(self, model: nn.Module) -> nn.Module:
        """The module whose backward pass averages gradients over processes."""
        return model

    def average_gradients(self, gradients: list[list[Tensor | None]], parameters: Sequence[Tensor]) -> None:
        """Replace each worker's gradients by the mean; none counts as zero, none of any worker stays None."""
        for i in range(len(gradients[0])):
            present = [gradient for worker in gradients if (gradient := worker[i]) is not None]
            if not present:
                continue
            mean = torch.stack(present).sum(0).div_(self.size)
            for worker in gradients:
                own = worker[i]
                worker[i] = mean.clone() if own is None else own.copy_(mean)
