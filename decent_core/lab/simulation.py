"""Time and memory that the runtime model's simulation takes: a table.

    python -m scripts.bench simulation

Every row is a process of its own, so that its peak memory is its own.
"""

import multiprocessing
import time
from dataclasses import dataclass

from decent_core import topology as topologies
from decent_core.runtime import Noise, constant, paper_workload, simulate_gossip
from decent_core.runtime.noise import Granularity
from decent_core.system.processes import peak_memory_mib

BUCKETS, LOCAL_SIZE, VARIANCE = 7, 8, 0.00695
#: topology, workers, iterations, granularity of the noise
ROWS: tuple[tuple[str, int, int, Granularity], ...] = (
    ("one_peer_hypercube", 4096, 1000, "pass"),
    ("one_peer_hypercube", 4096, 1000, "bucket"),
    ("one_peer_exp", 4096, 1000, "pass"),
    ("aer", 4096, 1000, "pass"),
    ("complete", 4096, 1000, "pass"),
    ("one_peer_hypercube", 2**20, 5, "pass"),
    ("one_peer_exp", 1_000_000, 5, "pass"),
    ("aer", 2**20, 5, "pass"),
)


@dataclass(frozen=True)
class Options:
    """There are none."""


def run(given: Options) -> int:
    """Print the table, row by row; returns the exit status."""
    print(
        "| topology | workers | iterations | a noise factor for each | seconds | peak MiB |\n|---|---|---|---|---|---|"
    )
    context = multiprocessing.get_context("spawn")
    for row in ROWS:
        with context.Pool(1) as pool:
            seconds, mebibytes = pool.apply(measure, row)
        name, workers, iterations, granularity = row
        print(
            f"| {name} | {workers:,} | {iterations:,} | {granularity} | {seconds:.1f} | {mebibytes:.0f} |", flush=True
        )
    return 0


def measure(name: str, workers: int, iterations: int, granularity: Granularity) -> tuple[float, float]:
    """Seconds to build the topology and simulate it, and this process's peak memory in MiB."""
    start = time.perf_counter()
    work = paper_workload(BUCKETS, 0.364, workers)
    topology = topologies.build(name, workers, LOCAL_SIZE)
    simulate_gossip(work, topology, constant(2.4), Noise(VARIANCE, granularity), iterations, warm_up=0)
    return time.perf_counter() - start, peak_memory_mib()
