"""The measurements behind a profile: computing without exchanges, and exchanges without computing."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from decent_core.config.run_config import RunConfig
from decent_core.config.task_package import import_task
from decent_core.engine.distributed import DistributedCommunicator, gather_objects
from decent_core.engine.settings import DistributedSettings
from decent_core.engine.timing import DeviceClock
from decent_core.lab.exchanges import Exchange, different_rounds, timed
from decent_core.lab.pacing import bytes_a_second, pace_connections
from decent_core.lab.summary import summarise_computing, summarise_exchanges
from decent_core.optim import build as build_optimizer
from decent_core.optim import parameter_groups
from decent_core.records.provenance import git_state, versions
from decent_core.runtime.exchanges import exchange_keys
from decent_core.topology import Round, feasible
from decent_core.training.launch import find_launch, join, workers_per_node
from decent_core.training.precision import AUTOCAST

WARM_UP = 3
MOST_SECONDS = 2.0  # for the repeats of one exchange, unless three take longer


@dataclass
class Worker:
    """This process, and where it computes."""

    settings: DistributedSettings
    device: torch.device
    rank: int
    local_size: int


def measure(config: RunConfig, repeats: int, rate: str | None = None) -> dict[str, Any] | None:
    """The content of a profile, on rank 0; None on the others. Raises ValueError without a launcher.

    With a `rate`, connections are paced to it, and every worker counts as a node of its own.
    """
    worker = _join(config, rate)
    model = import_task(config.task_package).build(config.task, config.seed, dist.get_world_size()).build_model()
    row_bytes = sum(p.numel() for p in model.parameters()) * 4
    computing = gather_objects(_computing(config, worker, model, repeats))
    exchanges = gather_objects(_exchanges(worker, row_bytes, repeats, None if rate is None else bytes_a_second(rate)))
    if worker.rank:
        return None
    commit, dirty = git_state()
    return {
        "source": "measured",
        "task": config.task.name,
        "scale": config.scale,
        "world_size": dist.get_world_size(),
        "local_size": worker.local_size,
        "device": str(worker.device.type),
        "versions": versions(),
        "git_commit": commit,
        "git_dirty": dirty,
        "overrides": config.overrides,
        "message_bytes": row_bytes,
        "bucket_bytes": _bucket_bytes(worker, row_bytes),
        "repeats": repeats,
        "paced": rate,
        **summarise_computing(computing),
        "exchanges": summarise_exchanges(exchanges),
    }


def _join(config: RunConfig, rate: str | None) -> Worker:
    launch = find_launch()
    if launch is None:
        raise ValueError(
            "no launcher found; start with torchrun --nproc-per-node=N -m scripts.bench profile ... (or srun, mpirun)"
        )
    assert isinstance(config.engine, DistributedSettings)
    device = join(launch, config.engine.timeout_seconds)
    nodes = workers_per_node() if rate is None else [1] * launch.world_size
    if len(set(nodes)) > 1:
        raise ValueError(f"nodes of {nodes} workers: a profile needs nodes of equal size")
    return Worker(config.engine, device, launch.rank, nodes[0])


def _computing(config: RunConfig, worker: Worker, model: nn.Module, repeats: int) -> list[list[float]]:
    """Seconds of forward, backward and update in each repeat, [repeats][3]."""
    task = import_task(config.task_package).build(config.task, config.seed, dist.get_world_size())
    model.to(worker.device)
    optimizer = build_optimizer(config.optimizer, parameter_groups(model, config.optimizer.weight_decay))
    clock = DeviceClock(worker.device)
    dtype = AUTOCAST.get(config.trainer.precision)
    found = []
    for step in range(WARM_UP + repeats):
        batch = {name: tensor.to(worker.device) for name, tensor in task.batch(step, worker.rank).items()}
        dist.barrier()
        marks = [clock.mark()]
        with torch.autocast(worker.device.type, dtype, enabled=dtype is not None):
            loss = task.loss_sum(model, batch) / task.weight(batch)
        marks.append(clock.mark())
        loss.backward()
        marks.append(clock.mark())
        if config.trainer.clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), config.trainer.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        marks.append(clock.mark())
        clock.settle()
        found.append([clock.seconds(a, b) for a, b in pairwise(marks)])
    return found[WARM_UP:]


def _exchanges(worker: Worker, row_bytes: int, repeats: int, pace: float | None) -> dict[Exchange, list[float]]:
    """Seconds of this rank's exchanges, by kind; connections send at most `pace` bytes/s."""
    found: dict[Exchange, list[float]] = {}
    rows = torch.zeros(1, row_bytes // 4, device=worker.device)
    for topology in feasible(dist.get_world_size(), worker.local_size):
        world = DistributedCommunicator(worker.settings, topology, worker.device)
        for round_ in different_rounds(topology):
            key = exchange_keys(round_, topology.node_of)[worker.rank]
            buckets = {_bucket_bytes(worker, row_bytes) // 4} if topology.name == "complete" else set()  # All-Reduce's
            timed(world, rows[:, :1], round_)  # some connections are made when they are first used
            if pace is not None:
                pace_connections(pace)
            for count in sorted({1, row_bytes // 4} | buckets):
                times = _repeated(world, rows[:, :count], round_, repeats)
                if key is not None:
                    found.setdefault((topology.name, key, 4 * count), []).extend(times)
        if world.exchange.thread is not None:
            world.exchange.thread.shutdown()
    return found


def _repeated(world: DistributedCommunicator, rows: torch.Tensor, round_: Round, repeats: int) -> list[float]:
    """Times without the warm-up; where an exchange is slow, fewer than `repeats`, the same number on all ranks."""
    slowest = max(gather_objects(timed(world, rows, round_)))
    fitting = int(MOST_SECONDS / slowest)
    times = [timed(world, rows, round_) for _ in range(min(WARM_UP, fitting) + max(3, min(repeats, fitting)))]
    return times[min(WARM_UP, fitting) :]


def _bucket_bytes(worker: Worker, row_bytes: int) -> int:
    return min(row_bytes, max(4, int(worker.settings.bucket_mib * 2**20)))
