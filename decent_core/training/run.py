"""One training run from a validated configuration: joins the ranks, builds the parts, trains, writes the record."""

import fcntl
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

from decent_core.config.logger_settings import NoLogger
from decent_core.config.run_config import RunConfig
from decent_core.config.task_package import import_task
from decent_core.display.training import TrainingDisplay
from decent_core.engine.engine import Engine
from decent_core.optim import build as build_optimizer
from decent_core.optim import parameter_groups
from decent_core.records.identity import flatten
from decent_core.records.record import Record, write
from decent_core.records.step_log import MetricsLog
from decent_core.system.files import open_lock
from decent_core.system.signals import StopRequest
from decent_core.tracking.logger import LoggerProcess
from decent_core.training.checkpoint import Checkpoints
from decent_core.training.join import join_communicator, use_threads
from decent_core.training.memory_format import use_channels_last
from decent_core.training.recording import make_record, peak_gib
from decent_core.training.trainer import Outcome, Trainer


class Run:
    """A run in this process; with several processes, each of them makes one."""

    def __init__(self, config: RunConfig, stop: StopRequest):
        self.started = datetime.now(UTC)
        self.stop = stop
        self.config, self.communicator, self.device, self.topology = join_communicator(config)
        self.is_main = self.communicator.rank == 0
        self.folder = Path(self.config.out or f"runs/{self.run_id}")
        use_threads(self.config, self.communicator)
        self.lock = self._claim_folder()
        self.logger = LoggerProcess(self.config.logger if self.is_main else NoLogger("none"), self.folder)
        package = import_task(self.config.task_package)
        self.task = package.build(self.config.task, self.config.seed, self.config.world_size)
        self.engine = self._build_engine()
        self.log = MetricsLog(self.folder / "metrics.jsonl", lambda text: print(text, file=sys.stderr))
        self.trainer, self.display = self._build_trainer()
        self.logger.begin(self.run_id, self.config.as_dict(), anew=self.config.resume == "never")

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: Any) -> None:
        self.display.close()
        self.logger.close(lambda text: print(text, file=sys.stderr))

    @property
    def run_id(self) -> str:
        """Names what is run, and its configuration by hash; a run that is started again has the same."""
        c = self.config
        row = (
            c.experiment.replace("/", "-")
            if c.experiment
            else f"{c.task.name}-{c.method.name}-{c.optimizer.name}-{c.topology.name}"
        )
        return f"{row}-{c.scale}-s{c.seed}-{c.config_hash[:8]}"

    def train(self) -> tuple[Record, Path]:
        """Train to an end of any kind; the record is written by rank 0 whatever the end is."""
        try:
            outcome = self.trainer.run()
        except BaseException as error:
            self._write(self._record(Outcome("failed", self.engine.step, f"{type(error).__name__}: {error}")))
            raise
        record = self._complete(outcome)
        self._write(record)
        return record, self._record_path

    def _write(self, record: Record) -> None:
        if self.is_main:
            self.logger.record = write(record, self._record_path)

    @property
    def _record_path(self) -> Path:
        return self.folder / "record.json"

    def _claim_folder(self) -> IO | None:
        """Keep other runs out of the folder; raises ValueError on every rank if one is in it."""
        lock, problem = None, None
        if self.is_main:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = open_lock(self.folder / ".lock")  # held until the process ends
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                problem = f"out={self.folder}: another run is writing there; wait for it, or give another out="
            except OSError as error:
                problem = f"out={self.folder}: cannot be written ({error.strerror})"
        problems = self.communicator.each_process(problem, "claiming the run's folder")
        if problems[0] is not None:
            raise ValueError(problems[0])
        return lock

    def _build_engine(self) -> Engine:
        config, settings = self.config, self.config.trainer
        torch.manual_seed(config.seed)
        model = self.task.build_model()
        model.to(self.device, torch.float64 if settings.precision == "fp64" else None)
        if settings.channels_last:
            use_channels_last(model, self.device)
        engine = Engine(
            model, self.communicator, config.build_method(), self.topology, _optimizer_builder(config),
            clip_norm=settings.clip_norm, scaled=settings.precision == "fp16", piecewise=True, seed=config.seed,
            peak_lr=config.peak_lr,
        )  # fmt: skip
        if settings.compile:
            engine.module.compile()
        return engine

    def _build_trainer(self) -> tuple[Trainer, TrainingDisplay]:
        config = self.config
        say: Callable[[str], None] = lambda text: print(text, file=sys.stderr) if self.is_main else None  # noqa: E731
        identity = flatten(config.result_keys())
        checkpoints = Checkpoints(
            self.folder / "checkpoints", self.communicator, config.trainer.keep_checkpoints, identity, say
        )
        trainer = Trainer(
            self.task, self.engine, config.trainer, config.learning_rate, checkpoints, self._write_log, self.stop
        )
        state = checkpoints.load(config.resume)
        if state is not None:
            trainer.restore(state)
        if self.is_main:
            step = self.engine.step if state is not None else -1
            self.log.truncate_after(step, finished=step == config.trainer.steps)
        display = TrainingDisplay(self.run_id, config.trainer.steps, self.engine.step, self.is_main)
        if state is not None:
            display.say(f"continues from the checkpoint of step {self.engine.step}")
        return trainer, display

    def _write_log(self, values: dict[str, Any]) -> None:
        if self.is_main:
            self.log.append(values)
            self.display(values)
            self.logger.check(self.display.say)

    def _complete(self, outcome: Outcome) -> Record:
        """The record, with what has to be asked of all ranks."""
        hashes = self.engine.parameter_hashes() if outcome.status == "ok" else None
        peak = max(self.communicator.each_process(peak_gib(self.device), "record"))
        return replace(self._record(outcome), parameters_sha256=hashes, peak_gib=peak)

    def _record(self, outcome: Outcome) -> Record:
        waits = self.communicator.processes > 1 and not self.engine.method.averages_gradients
        progress = self.trainer.progress
        return make_record(self.config, self.run_id, self.task, self.started, outcome, progress, waits, self.device)


def _optimizer_builder(config: RunConfig) -> Callable[[nn.Module], torch.optim.Optimizer]:
    decay = config.optimizer.weight_decay
    return lambda model: build_optimizer(config.optimizer, parameter_groups(model, decay))
