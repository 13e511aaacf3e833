"""Times single exchanges without computing: the input of the runtime model's predictions."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from decent_core.engine.distributed import DistributedCommunicator
from decent_core.runtime.exchanges import Key, exchange_keys
from decent_core.topology import Round, Topology

MOST_ROUNDS = 8  # of a topology's period
Exchange = tuple[str, Key, int]  # topology, kind of exchange, bytes


def timed(world: DistributedCommunicator, rows: torch.Tensor, round_: Round) -> float:
    """Seconds of one exchange of this worker, which all start together."""
    dist.barrier()
    start = time.perf_counter()
    world.start_mix(rows, round_, "profile").wait()
    if world.device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter() - start


def different_rounds(topology: Topology) -> Iterator[Round]:
    """The rounds of a period, without those whose exchanges are like an earlier round's on every worker."""
    seen = set()
    for step in range(min(topology.period, MOST_ROUNDS)):
        round_ = topology.round(step)
        looks = tuple(exchange_keys(round_, topology.node_of))
        if looks not in seen:
            seen.add(looks)
            yield round_


def pooled(exchanges: Sequence[dict[Exchange, list[float]]]) -> dict[Exchange, list[float]]:
    """The times of all ranks together."""
    together: dict[Exchange, list[float]] = {}
    for own in exchanges:
        for exchange, times in own.items():
            together.setdefault(exchange, []).extend(times)
    return together


def as_json(exchange: Exchange) -> dict[str, Any]:
    """An exchange as plain values."""
    topology, (kind, size, crosses, load), bytes_ = exchange
    return {"topology": topology, "kind": kind, "size": size, "crosses": crosses, "load": load, "bytes": bytes_}
