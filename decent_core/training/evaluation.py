"""Evaluation of the averaged model and of the workers' own models: every validation sample once, for any N."""

import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from decent_core.config.trainer_settings import TrainerSettings
from decent_core.engine.averaging import averaged
from decent_core.engine.engine import Engine
from decent_core.training.precision import autocast
from decent_core.training.task import Batch, Task, to_device

RECOMPUTE_STEPS = 10  # training steps' worth of batches from which BN statistics are made anew


class Evaluator:
    """Evaluates without touching training: models, buffers and random streams are the same before and after."""

    def __init__(self, task: Task, engine: Engine, settings: TrainerSettings):
        self.task, self.engine, self.policy = task, engine, settings.batch_norm
        self.precision = settings.precision

    def averaged_model(self) -> dict[str, float]:
        """Metrics of the mean over workers on the validation set."""
        return self.task.summarise(self._averaged_parts(self.task.validation_batches()))

    def averaged_model_finally(self) -> tuple[dict[str, float], list[dict[str, str]]]:
        """The same on what is evaluated when training has ended; and outputs to look at."""
        parts = self._averaged_parts(self.task.final_batches())
        return self.task.summarise(parts), self.task.outputs(parts)

    @torch.no_grad()
    def _averaged_parts(self, batches: Sequence[Batch]) -> list[Any]:
        """The averaged model's contributions in batch order; the batches are shared out over the workers."""
        communicator = self.engine.communicator
        local = [
            (index, range(worker, len(batches), communicator.size))
            for index, worker in enumerate(communicator.local_workers)
        ]
        # Only with the policy `local` does the model depend on the worker.
        turns = local if self.policy == "local" else [(0, sorted(b for _, share in local for b in share))]
        found: list[tuple[int, Any]] = []
        for index, share in turns:
            with averaged(self.engine, self.policy, index, self._run_training_batches) as model:
                found += [(number, self._part(model, batches[number])) for number in share]
        own = [
            [pair for pair in found if pair[0] % communicator.size == worker] for worker in communicator.local_workers
        ]
        everyone = communicator.gather(own, "evaluation")
        in_order = sorted((pair for pairs in everyone for pair in pairs), key=lambda pair: pair[0])
        return [part for _, part in in_order]

    @torch.no_grad()
    def local_models(self) -> dict[str, float]:
        """The workers' own models: each on all batches, the mean over workers under `local_<name>`.

        `own_shard_<name>` is the published way of [P]'s image runs: each model on its own share of the batches.
        """
        communicator, batches = self.engine.communicator, self.task.validation_batches()
        own = []
        for index, worker in enumerate(communicator.local_workers):
            self.engine.replicas.bind(index)
            parts = [self._part(self.engine.model, batch) for batch in batches]
            own.append((self.task.summarise(parts), parts[worker :: communicator.size]))
        everyone = communicator.gather(own, "evaluation of local models")
        means = {name: statistics.fmean(m[name] for m, _ in everyone) for name in everyone[0][0]}
        shards = [
            everyone[number % communicator.size][1][number // communicator.size] for number in range(len(batches))
        ]
        local = {f"local_{name}": value for name, value in means.items()}
        return local | {f"own_shard_{name}": value for name, value in self.task.summarise(shards).items()}

    def _part(self, model: nn.Module, batch: Batch) -> Any:
        model.eval()
        try:
            with autocast(self.precision, self.engine.x.device):
                return self.task.evaluate(model, to_device(batch, self.engine.x.device))
        finally:
            model.train()

    def _run_training_batches(self, model: nn.Module) -> None:
        """Forward passes over the batches of the first steps, the same on every rank."""
        for step in range(RECOMPUTE_STEPS):
            for worker in range(self.engine.communicator.size):
                self.task.loss_sum(model, to_device(self.task.batch(step, worker), self.engine.x.device))
