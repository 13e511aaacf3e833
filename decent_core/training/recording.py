"""What a finished run leaves behind: its record."""

from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from decent_core.config.run_config import RunConfig
from decent_core.display.times import percentile
from decent_core.records.provenance import git_state, versions
from decent_core.records.record import Record
from decent_core.system.processes import peak_memory_mib
from decent_core.training.measurements import Progress
from decent_core.training.task import Task
from decent_core.training.trainer import Outcome


def make_record(config: RunConfig, run_id: str, task: Task, started: datetime, outcome: Outcome, progress: Progress,
                waits: bool, device: torch.device) -> Record:  # fmt: skip
    """The record of a run as this process knows it; `waits`: the times of waiting mean something in this world."""
    commit, dirty = git_state()
    return Record(
        run_id=run_id,
        source="measured",
        status=outcome.status,
        message=outcome.message or None,
        **_identity(config),
        git_commit=commit,
        git_dirty=dirty,
        versions=versions(),
        device=device_name(device),
        started_at=started.isoformat(timespec="seconds"),
        steps=outcome.step,
        samples=outcome.step * task.samples_per_step,
        train_seconds=progress.train_seconds,
        eval_seconds=progress.eval_seconds,
        step_ms_p50=percentile(progress.step_ms, 50),
        step_ms_p95=percentile(progress.step_ms, 95),
        wait_ms_p50=percentile(progress.wait_ms, 50) if waits else None,
        bytes_sent_per_step=progress.bytes_sent / max(1, len(progress.step_ms)),
        peak_gib=peak_gib(device),
        metrics=dict(outcome.metrics),
        primary_metric=task.primary_metric,
        lower_is_better=task.lower_is_better,
        best=progress.best,
        consensus_distance=outcome.consensus_distance,
        curve=progress.curve,
        parameters_sha256=None,
        notes=dict(task.notes),
        outputs=outcome.outputs,
    )


def _identity(config: RunConfig) -> dict[str, Any]:
    """What was run: the fields that say it by name, and the whole configuration."""
    return {
        "experiment": config.experiment,
        "config_hash": config.config_hash,
        **{part: getattr(config, part).name for part in ("task", "optimizer", "method", "topology", "engine")},
        **{key: getattr(config, key) for key in ("scale", "world_size", "local_size", "seed", "overrides")},
        "config": config.as_dict(),
    }


def peak_gib(device: torch.device) -> float:
    """The most memory that this process has held: the accelerator's, or resident memory on the CPU."""
    if device.type != "cpu":
        return torch.accelerator.max_memory_allocated(device) / 2**30
    return peak_memory_mib() / 1024


def device_name(device: torch.device) -> str:
    """The accelerator's or the processor's name."""
    if device.type != "cpu":
        return torch.get_device_module(device).get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return "cpu"
