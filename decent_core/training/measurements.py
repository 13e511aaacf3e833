"""What a run has measured so far: losses and times of its steps, its evaluations, and whether its loss is lost."""

import math
import statistics
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from decent_core.engine.communicator import Communicator
from decent_core.engine.timing import DeviceClock, Mark
from decent_core.training.task import Task


@dataclass
class Progress:
    """Plain values but for `unread`, which `read` makes plain; saved in every checkpoint."""

    train_seconds: float = 0.0  # training steps only, the slowest rank's
    eval_seconds: float = 0.0
    step_ms: list[float] = field(default_factory=list)  # each step, the slowest rank's
    wait_ms: list[float] = field(default_factory=list)  # each step, mean over ranks
    bytes_sent: float = 0.0  # mean over workers, all steps
    unread: list[tuple] = field(default_factory=list)  # steps since the last log line: (losses, ms, wait ms, bytes)
    curve: list[dict] = field(default_factory=list)
    best: dict = field(default_factory=dict)
    epoch_losses: list[float] = field(default_factory=list)  # training losses of the last `steps_per_epoch` steps
    not_finite: int = 0  # consecutive steps with a loss that is not finite

    def note_step(self, losses: Tensor, time: tuple[Mark, Mark], waits: list[tuple[Mark, Mark]], sent: float) -> None:
        """A step that has been sent on its way; nothing here waits for it."""
        self.unread.append((losses, time, waits, sent))

    def read(self, clock: DeviceClock) -> None:
        """Turn the marks and device scalars of the unread steps into numbers."""
        clock.settle()
        for i, (losses, time, waits, sent) in enumerate(self.unread):
            if isinstance(losses, Tensor):
                wait = sum(1000 * clock.seconds(*pair) for pair in waits)
                self.unread[i] = (losses.tolist(), 1000 * clock.seconds(*time), wait, sent)

    def close_interval(
        self, clock: DeviceClock, communicator: Communicator, task: Task
    ) -> tuple[dict[str, float], list[float]]:
        """The values of the log line that ends here, and the loss of each of its steps, mean over all workers."""
        self.read(clock)
        own, self.unread = self.unread, []
        processes = communicator.each_process(own, "logging")
        by_step = list(zip(*processes, strict=True))
        losses = [mean([loss for part in step for loss in part[0]]) for step in by_step]
        step_ms = [max(part[1] for part in step) for step in by_step]
        wait_ms = [statistics.fmean(part[2] for part in step) for step in by_step]
        sent = [part[3] for part in own]
        if task.steps_per_epoch is not None:
            self.epoch_losses = (self.epoch_losses + losses)[-task.steps_per_epoch :]
        self.step_ms += step_ms
        self.wait_ms += wait_ms
        self.bytes_sent += sum(sent)
        self.train_seconds += max(sum(part[1] for part in process) for process in processes) / 1000
        values = {
            "train_loss": mean(losses),
            "bytes_sent_per_step": statistics.fmean(sent),
            "train_seconds": self.train_seconds,
            "step_ms": statistics.median(step_ms),
            "wait_ms": statistics.median(wait_ms),
            "samples_per_second": 1000 * task.samples_per_step / statistics.fmean(step_ms),
        }
        return values, losses

    def lost_from(self, before: int, losses: list[float], patience: int) -> int | None:
        """The first step (from 0) of a run of non-finite losses that has become too long; `before` these were done."""
        for offset, loss in enumerate(losses):
            self.not_finite = 0 if math.isfinite(loss) else self.not_finite + 1
            if self.not_finite >= max(1, patience):
                return before + offset - self.not_finite + 1
        return None

    def seconds_so_far(self, clock: DeviceClock, communicator: Communicator) -> float:
        """Training seconds of the slowest rank, with the steps since the last log line."""
        self.read(clock)
        unread = sum(time for _, time, *_ in self.unread) / 1000
        return self.train_seconds + max(communicator.each_process(unread, "clocks"))

    def note_evaluation(self, done: int, seconds: float, metrics: dict[str, float], distance: float, task: Task
    ) -> dict[str, Any]:  # fmt: skip
        """One more point of the curve; returns its values."""
        values = {**metrics, "consensus_distance": distance}
        self.curve.append({"step": done, "seconds": seconds, "values": values})
        name, sign = task.primary_metric, 1 if task.lower_is_better else -1
        if not self.best or sign * metrics[name] < sign * self.best["metrics"][name]:
            self.best = {"step": done, "metrics": metrics}
        return values

    def last_epoch(self, task: Task) -> dict[str, float]:
        """The mean training loss of the last epoch, as [P]'s Table 3 has it; nothing if there was no whole epoch."""
        losses = self.epoch_losses
        return {"train_loss": mean(losses)} if losses and len(losses) == task.steps_per_epoch else {}


def mean(values: list[float]) -> float:
    return sum(values) / len(values)  # not fmean, which refuses infinities of both signs
