"""One training run from a validated configuration: joins the world, builds the parts, trains, writes the record."""

import fcntl
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import torch
import torch.distributed as dist
from torch import nn

import tasks
from decent_core import topology
from decent_core.checkpoint import Checkpoints
from decent_core.clock import percentile
from decent_core.engine.distributed import DistributedWorld, ExchangeError
from decent_core.engine.engine import Engine, World
from decent_core.engine.launch import choose_device, find_launch, join, workers_per_node
from decent_core.engine.virtual import VirtualWorld
from decent_core.methods import METHODS
from decent_core.optim import build as build_optimizer
from decent_core.optim import parameter_groups
from decent_core.record import MetricsLog, Record, git_state, versions, write
from decent_core.settings import DistributedSettings
from decent_core.signals import StopRequest
from decent_core.trainer import Outcome, Trainer
from scripts.config import RunConfig
from scripts.progress import TrainingDisplay


class Run:
    """A run in this process; with several processes, each of them makes one."""

    def __init__(self, config: RunConfig, stop: StopRequest):
        self.started = datetime.now(UTC)
        self.stop = stop
        self.config, self.world, self.device, self.topology = _join_world(config)
        self.is_main = self.world.rank == 0
        self.folder = Path(self.config.out or f"runs/{self.run_id}")
        _use_threads(self.config, self.world)
        self.lock = self._claim_folder()
        self.task = tasks.load(self.config.task.name).build(self.config.task, self.config.seed, self.config.world_size)
        self.engine = self._build_engine()
        self.log = MetricsLog(self.folder / "metrics.jsonl")
        self.trainer, self.display = self._build_trainer()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: Any) -> None:
        self.display.close()
        if dist.is_initialized():
            dist.destroy_process_group()

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
            if self.is_main:
                write(
                    self._record(Outcome("failed", self.engine.step, f"{type(error).__name__}: {error}")),
                    self._record_path,
                )
            raise
        record = self._complete(outcome)
        if self.is_main:
            write(record, self._record_path)
        return record, self._record_path

    @property
    def _record_path(self) -> Path:
        return self.folder / "record.json"

    def _claim_folder(self) -> IO | None:
        """Keep other runs out of the folder; raises ValueError on every rank if one is in it."""
        lock, problem = None, None
        if self.is_main:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = open(self.folder / ".lock", "w")  # noqa: SIM115  (held until the process ends)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                problem = f"out={self.folder}: another run is writing there; wait for it, or give another out="
            except OSError as error:
                problem = f"out={self.folder}: cannot be written ({error.strerror})"
        problems = self.world.gather([problem] * len(self.world.local_workers), "claiming the run's folder")
        if problems[0] is not None:
            raise ValueError(problems[0])
        return lock

    def _build_engine(self) -> Engine:
        config = self.config
        torch.manual_seed(config.seed)
        model = self.task.build_model()
        model.to(self.device, torch.float64 if config.trainer.precision == "fp64" else None)
        method = METHODS[config.method.name](**config.method.options)
        return Engine(
            model, self.world, method, self.topology, _optimizer_builder(config), _learning_rate(config),
            config.trainer, config.seed,
        )  # fmt: skip

    def _build_trainer(self) -> tuple[Trainer, TrainingDisplay]:
        config = self.config
        say: Callable[[str], None] = lambda text: print(text, file=sys.stderr) if self.is_main else None  # noqa: E731
        identity = flatten(config.as_dict(with_cadence=False))
        checkpoints = Checkpoints(
            self.folder / "checkpoints", self.world, config.trainer.keep_checkpoints, identity, say
        )
        trainer = Trainer(self.task, self.engine, config.trainer, checkpoints, self._write_log, self.stop)
        state = checkpoints.load(config.resume)
        if state is not None:
            trainer.restore(state)
        if self.is_main:
            self.log.truncate_after(self.engine.step if state is not None else -1)
        display = TrainingDisplay(self.run_id, config.trainer.steps, self.engine.step, self.is_main)
        if state is not None:
            display.say(f"continues from the checkpoint of step {self.engine.step}")
        return trainer, display

    def _write_log(self, values: dict[str, Any]) -> None:
        if self.is_main:
            self.log.append(values)
            self.display(values)

    def _complete(self, outcome: Outcome) -> Record:
        """The record, with what has to be asked of all ranks."""
        hashes = self.engine.parameter_hashes() if outcome.status == "ok" else None
        peak = max(self.world.gather([_peak_gib(self.device)] * len(self.world.local_workers), "record"))
        return replace(self._record(outcome), parameters_sha256=hashes, peak_gib=peak)

    def _record(self, outcome: Outcome) -> Record:
        config, progress = self.config, self.trainer.progress
        commit, dirty = git_state()
        steps = max(1, len(progress.step_ms))
        waits = (
            progress.wait_ms
            if config.engine.name == "distributed" and not self.engine.method.averages_gradients
            else []
        )
        return Record(
            run_id=self.run_id,
            source="measured",
            status=outcome.status,
            message=outcome.message or None,
            experiment=config.experiment,
            config_hash=config.config_hash,
            task=config.task.name,
            optimizer=config.optimizer.name,
            method=config.method.name,
            topology=config.topology.name,
            engine=config.engine.name,
            scale=config.scale,
            world_size=config.world_size,
            local_size=config.local_size,
            seed=config.seed,
            overrides=config.overrides,
            config=config.as_dict(),
            git_commit=commit,
            git_dirty=dirty,
            versions=versions(),
            device=_device_name(self.device),
            started_at=self.started.isoformat(timespec="seconds"),
            steps=outcome.step,
            samples=outcome.step * self.task.samples_per_step,
            train_seconds=progress.train_seconds,
            eval_seconds=progress.eval_seconds,
            step_ms_p50=percentile(progress.step_ms, 50),
            step_ms_p95=percentile(progress.step_ms, 95),
            wait_ms_p50=percentile(waits, 50),
            bytes_sent_per_step=progress.bytes_sent / steps,
            peak_gib=_peak_gib(self.device),
            metrics=dict(outcome.metrics),
            primary_metric=self.task.primary_metric,
            best=progress.best,
            consensus_distance=outcome.consensus_distance,
            curve=progress.curve,
            parameters_sha256=None,
        )


def _join_world(config: RunConfig) -> tuple[RunConfig, World, torch.device, topology.Topology]:
    """The world of this process, and the configuration with the sizes that the launcher decides."""
    launch = find_launch()
    if not isinstance(config.engine, DistributedSettings):
        if launch is not None and launch.world_size > 1:
            raise ValueError(
                f"engine=virtual: {launch.launcher} has started {launch.world_size} processes, and each would train all "
                "workers; start one process, or give engine=distributed"
            )
        local_size = config.local_size if config.local_size is not None else 1
        config = replace(config, local_size=local_size)
        built = topology.build(config.topology.name, config.world_size, local_size, **config.topology.options)
        return config, VirtualWorld(config.world_size), choose_device(0), built
    if launch is None:
        raise ValueError(
            "engine=distributed: no launcher found; start with torchrun --nproc-per-node=N -m scripts.train ... "
            "(or srun, or mpirun), or give engine=virtual for N workers in this process"
        )
    chosen = config.explicit("world_size") or config.experiment is not None
    if chosen and launch.world_size != config.world_size:
        raise ValueError(
            f"world_size={config.world_size}: {launch.launcher} has started {launch.world_size} processes; start "
            f"{config.world_size}, or give world_size={launch.world_size}"
        )
    device = choose_device(launch.local_rank)
    config = replace(config, world_size=launch.world_size)
    if config.local_size is not None:  # the topology is checked before ranks meet, so that a mistake shows at once
        topology.build(config.topology.name, config.world_size, config.local_size, **config.topology.options)
    join(launch, device, config.engine.timeout_seconds)
    if config.local_size is None:
        nodes = workers_per_node()
        config = replace(config, local_size=nodes[0] if len(set(nodes)) == 1 else nodes)
    assert config.local_size is not None and isinstance(config.engine, DistributedSettings)
    built = topology.build(config.topology.name, config.world_size, config.local_size, **config.topology.options)
    needs_groups = None if METHODS[config.method.name].averages_gradients else built
    return config, DistributedWorld(config.engine, needs_groups, device), device, built


def _use_threads(config: RunConfig, world: World) -> None:
    """As configured; else a process takes its share of the node's cores, and one process takes torch's default."""
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
    elif world.processes > 1 and "OMP_NUM_THREADS" not in os.environ:
        sizes = config.local_size if isinstance(config.local_size, list) else [config.local_size or 1]
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // max(sizes)))


def _optimizer_builder(config: RunConfig) -> Callable[[nn.Module], torch.optim.Optimizer]:
    decay = config.optimizer.weight_decay
    return lambda model: build_optimizer(config.optimizer, parameter_groups(model, decay))


def _learning_rate(config: RunConfig) -> Callable[[int], float]:
    return lambda step: config.optimizer.lr * config.schedule.factor(step, config.trainer.steps)


def _peak_gib(device: torch.device) -> float:
    if device.type != "cpu":
        return torch.accelerator.max_memory_allocated(device) / 2**30
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def _device_name(device: torch.device) -> str:
    if device.type != "cpu":
        return torch.get_device_module(device).get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return "cpu"


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys as dotted ones."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
