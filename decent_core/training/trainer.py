"""The one training loop: tasks bring batches and losses, the engine brings the workers."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from decent_core.config.trainer_settings import TrainerSettings
from decent_core.engine.averaging import consensus_distance
from decent_core.engine.engine import Engine
from decent_core.engine.timing import Mark
from decent_core.system.signals import StopRequest
from decent_core.training.checkpoint import Checkpoints
from decent_core.training.evaluation import Evaluator
from decent_core.training.measurements import Progress
from decent_core.training.precision import autocast
from decent_core.training.task import Task, to_device


@dataclass
class Outcome:
    """How a run ended, and why."""

    status: Literal["ok", "diverged", "failed", "preempted"]
    step: int
    message: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    consensus_distance: float | None = None
    outputs: list[dict[str, str]] = field(default_factory=list)


class Trainer:
    """Trains `engine` on `task` until `settings.steps`, evaluates, logs and saves on clocks of their own.

    Every step has the rate `learning_rate(step)`. `log` gets one plain dict a log interval (kind `train`) and an
    evaluation (kind `eval`), on every rank.
    """

    def __init__(
        self,
        task: Task,
        engine: Engine,
        settings: TrainerSettings,
        learning_rate: Callable[[int], float],
        checkpoints: Checkpoints,
        log: Callable[[dict[str, Any]], None],
        stop: StopRequest,
    ):
        self.task, self.engine, self.settings, self.checkpoints = task, engine, settings, checkpoints
        self.learning_rate, self.log, self.stop = learning_rate, log, stop
        self.evaluator = Evaluator(task, engine, settings)
        self.progress = Progress()
        self.device = engine.x.device

    def restore(self, state: dict) -> None:
        """Continue from what a checkpoint holds."""
        self.engine.load_state_dict(state["engine"])
        self.progress = Progress(**state["progress"])

    def run(self) -> Outcome:
        """Train to the end, or until the loss diverges or a stop signal arrives."""
        steps, engine = self.settings.steps, self.engine
        engine.model.train()
        while engine.step < steps:
            done = engine.step + 1
            at_log = _due(done, self.settings.log_every) or done == steps
            evaluate = _due(done, self.settings.eval_every) and done < steps
            save = self.settings.checkpoint_every > 0 and (_due(done, self.settings.checkpoint_every) or done == steps)
            # An exchange that ran ahead beside anything but a step would meet other exchanges, and hide its time.
            self._train_step(ahead=not (at_log or evaluate or save))
            if at_log and (diverged := self._log_training()) is not None:
                return self._diverged_from(diverged)
            if evaluate:
                self._evaluate()
            if save:
                self._save()
            # Ranks may only stop together, so distributed ones look at log lines, where they meet anyway.
            if (
                done < steps
                and (at_log or engine.communicator.processes == 1)
                and engine.communicator.any(bool(self.stop))
            ):
                if not save:
                    self._save()
                return Outcome(
                    "preempted", done, f"stopped by {self.stop.name or 'a signal to another rank'} after step {done}"
                )
        if lost := self.progress.not_finite:
            return self._diverged_from(steps - lost)
        return self._finish()

    @staticmethod
    def _diverged_from(step: int) -> Outcome:
        return Outcome("diverged", step, f"the training loss is not finite from step {step} on")

    def _train_step(self, ahead: bool) -> None:
        engine, clock = self.engine, self.engine.clock
        start = clock.mark()
        engine.set_learning_rate(self.learning_rate(engine.step))
        engine.begin_step(ahead)
        losses = []
        for index, worker in enumerate(engine.communicator.local_workers):
            losses.append(self._forward_backward(index, self.task.batch(engine.step, worker)))
        engine.end_step()
        self.progress.note_step(torch.stack(losses), (start, clock.mark()), engine.waits, engine.bytes_sent)

    def _forward_backward(self, index: int, batch: Any) -> Tensor:
        """Gradients of the batch's mean loss, micro-batch by micro-batch; returns the loss, detached."""
        parts = self.task.micro_batches(batch, self.settings.micro_batches)
        weight = sum(self.task.weight(part) for part in parts)
        losses = []
        for number, part in enumerate(parts):
            on_device = to_device(part, self.device)
            with self.engine.as_worker(index, number, last=number == len(parts) - 1) as module:
                with autocast(self.settings.precision, self.device):
                    loss = self.task.loss_sum(module, on_device) / weight
                self.engine.backward(index, loss)
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def _log_training(self) -> int | None:
        """Write the line of the interval that ends here; returns the step from which on the loss is lost, if it is."""
        engine = self.engine
        values, losses = self.progress.close_interval(engine.clock, engine.communicator, self.task)
        self.log({"kind": "train", "step": engine.step, "lr": engine.lr, **values})
        return self.progress.lost_from(engine.step - len(losses), losses, self.settings.diverged_patience)

    def _evaluate(self) -> None:
        """Evaluate the averaged model on the validation set."""
        start = self.engine.clock.mark()
        self._note_evaluation(self.evaluator.averaged_model(), start)

    def _note_evaluation(self, metrics: dict[str, float], start: Mark) -> float:
        """One more point of the curve; returns how far the workers are apart."""
        distance = consensus_distance(self.engine)
        self._count_evaluation(start)
        done = self.engine.step
        seconds = self.progress.seconds_so_far(self.engine.clock, self.engine.communicator)
        values = self.progress.note_evaluation(done, seconds, metrics, distance, self.task)
        self.log({"kind": "eval", "step": done, **values, "train_seconds": seconds})
        return distance

    def _count_evaluation(self, start: Mark) -> None:
        self.engine.clock.settle()
        self.progress.eval_seconds += self.engine.clock.seconds(start, self.engine.clock.mark())

    def _finish(self) -> Outcome:
        """The final evaluation: the averaged model, and the mean over the workers' own models."""
        if self.progress.curve and self.progress.curve[-1]["step"] == self.engine.step:
            self.progress.curve.pop()
        start = self.engine.clock.mark()
        metrics, outputs = self.evaluator.averaged_model_finally()
        distance = self._note_evaluation(metrics, start)
        if not math.isfinite(metrics[name := self.task.primary_metric]):
            return Outcome("diverged", self.engine.step, f"the averaged model's {name} is not finite at the end")
        start = self.engine.clock.mark()
        local = self.evaluator.local_models()
        self._count_evaluation(start)
        self.log({"kind": "eval", "step": self.engine.step, **local})
        return Outcome(
            "ok", self.engine.step, "", {**metrics, **local, **self.progress.last_epoch(self.task)}, distance, outputs
        )

    def _save(self) -> None:
        self.progress.read(self.engine.clock)
        self.checkpoints.save(self.engine.step, {"engine": self.engine.state_dict(), "progress": vars(self.progress)})


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
