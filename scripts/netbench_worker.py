"""One worker of scripts.netbench: the real engine over a shaped network, sleeping where a model would compute."""

import json
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from decent_core import topology as topologies
from decent_core.engine.distributed import DistributedWorld
from decent_core.engine.engine import Engine
from decent_core.engine.launch import choose_device, find_launch, join
from decent_core.methods import METHODS
from decent_core.runtime.costs import exchange_keys
from decent_core.settings import DistributedSettings, TrainerSettings
from scripts.cli import run_main
from scripts.measure import Exchange, different_rounds, named, pooled, timed
from scripts.namespaces import set_rate

TIMEOUT_SECONDS = 120.0
SAMPLES = 2  # of each exchange in isolation, in each repeat
SETTINGS = TrainerSettings(
    steps=1, eval_every=0, checkpoint_every=0, log_every=1, keep_checkpoints=1, micro_batches=1, clip_norm=None,
    precision="fp32", compile=False, channels_last=False, batch_norm="average", diverged_patience=1, threads=1,
)  # fmt: skip


class _Sleep(torch.autograd.Function):
    """Passes a parameter on; in the backward pass sleeps before its gradient is there."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, seconds: float) -> Tensor:
        ctx.seconds, ctx.shape = seconds, parameter.shape
        return parameter[0].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return torch.zeros(ctx.shape), None


class Sleeper(nn.Module):
    """`buckets` parameters of equal size; the passes take the given seconds and no processor."""

    def __init__(self, buckets: int, elements: int, forward: float, backward: float):
        super().__init__()
        self.parts = nn.ParameterList([nn.Parameter(torch.zeros(elements)) for _ in range(buckets)])
        self.times = forward, backward / buckets

    def forward(self) -> Tensor:
        time.sleep(self.times[0])
        total = torch.zeros(())
        for part in self.parts:
            total = total + _Sleep.apply(part, self.times[1])
        return total


def main(arguments: list[str]) -> None:
    """Measure all cells; rank 0 writes what came out as JSON to the path given."""
    plan = json.loads(arguments[0])
    launch = find_launch()
    assert launch is not None
    torch.set_num_threads(1)
    device = choose_device(launch.local_rank)
    join(launch, device, TIMEOUT_SECONDS)
    engines = {(method, name): _engine(plan, method, name, device) for method, name in plan["cells"]}
    found: list[dict[str, Any]] = []
    for rate in plan["rates"]:
        if launch.rank == 0:
            set_rate(plan["hosts"], rate)
        dist.barrier()
        for repeat in range(plan["repeats"]):
            found += _isolated(plan, rate, engines)
            for cell, engine in engines.items():
                found.append(_timed(plan, rate, repeat, cell, engine))
    if launch.rank == 0:
        with open(plan["out"], "w") as stream:
            json.dump(found, stream)
    dist.destroy_process_group()


def _engine(plan: dict[str, Any], method: str, topology: str, device: torch.device) -> Engine:
    settings = DistributedSettings("distributed", TIMEOUT_SECONDS, plan["elements"] * 4 / 2**20, False)
    built = topologies.build(topology, dist.get_world_size(), plan["local_size"])
    chosen = METHODS[method]()
    world = DistributedWorld(settings, built if chosen.uses_topology else None, device)
    model = Sleeper(plan["buckets"], plan["elements"], plan["forward"], plan["backward"])
    return Engine(model, world, chosen, built, lambda m: torch.optim.SGD(m.parameters(), lr=0.1), _rate, SETTINGS, 1)


def _rate(step: int) -> float:
    return 0.1


def _step(engine: Engine) -> None:
    engine.begin_step()
    with engine.as_worker(0) as module:
        engine.backward(0, module())
    engine.end_step()


def _timed(plan: dict[str, Any], rate: str, repeat: int, cell: tuple[str, str], engine: Engine) -> dict[str, Any]:
    """Mean seconds of a step over the steps and the workers, after one step that is not counted."""
    dist.barrier()
    _step(engine)
    start, waited = time.perf_counter(), 0.0
    for _ in range(plan["steps"]):
        _step(engine)
        waited += sum(engine.clock.seconds(a, b) for a, b in engine.waits)
    values = torch.tensor([time.perf_counter() - start, waited]) / plan["steps"]
    dist.all_reduce(values)
    seconds, wait = (values / dist.get_world_size()).tolist()
    return {
        "rate": rate, "repeat": repeat, "method": cell[0], "topology": cell[1], "seconds": seconds, "wait": wait,
        "bytes": engine.bytes_sent,
    }  # fmt: skip


def _isolated(plan: dict[str, Any], rate: str, engines: dict[tuple[str, str], Engine]) -> list[dict[str, Any]]:
    """Exchanges by themselves: all parameters of the gossip cells, and for All-Reduce one bucket."""
    found: dict[Exchange, list[float]] = {}
    for (method, _), engine in engines.items():
        world, topology = engine.world, engine.topology
        assert isinstance(world, DistributedWorld)
        size = plan["elements"] * (1 if method == "allreduce" else plan["buckets"])
        if method == "allreduce":  # its world has no groups but the default one, which is all that complete needs
            world.exchange.groups[tuple(range(world.size))] = None
        for round_ in different_rounds(topology):
            key = exchange_keys(round_, topology.node_of)[world.rank]
            times = [timed(world, torch.zeros(1, size), round_) for _ in range(1 + SAMPLES)][1:]
            if key is not None:
                found.setdefault((topology.name, key, 4 * size), []).extend(times)
    exchanges, computing = _gather(found), _gather(_computing(next(iter(engines.values()))))
    return [
        {"rate": rate, "computing": np.median(computing, axis=0).tolist()},
        *({"rate": rate, **named(exchange), "times": times} for exchange, times in pooled(exchanges).items()),
    ]


def _computing(engine: Engine) -> list[float]:
    """Seconds of forward, backward and update of this worker alone."""
    marks = [time.perf_counter()]
    loss = engine.model()
    marks.append(time.perf_counter())
    loss.backward()
    marks.append(time.perf_counter())
    engine.replicas.optimizers[0].step()
    marks.append(time.perf_counter())
    return [b - a for a, b in pairwise(marks)]


def _gather(value: Any) -> list[Any]:
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


if __name__ == "__main__":
    run_main(main)
