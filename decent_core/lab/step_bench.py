"""Step times and memory of our engine beside torch's DistributedDataParallel, decent-dp and a step without exchange.

    python -m scripts.bench steps out=results/local/bench.json

All have the same model, optimizer, topology and buckets, and are measured in turns, `repeats` times, over gloo: on the
loopback, and over links of `rates` with one worker a node (Linux, root and iproute2; without them, over connections on
the loopback that the kernel paces to these rates; without Linux, the loopback alone). Two loads: 4 workers whose
computing is slept, so that the cores are free for the exchange; and GPT-2 at scale tiny on 2 workers, where exchange
and computing share the cores. Then the peak memory of a worker, every cell in processes of its own. Writes the
measurements as JSON and a table beside it; measured=FILE makes the table of earlier measurements again.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decent_core.config.choices import DEFAULTS
from decent_core.lab.launch import run_on_loopback, run_workers
from decent_core.lab.namespaces import check_possible, check_rate, hosts
from decent_core.lab.record import SLEEP, check_reference, header, read_earlier
from decent_core.lab.report import LOOPBACK, step_table
from decent_core.system.files import write_atomically
from decent_core.system.processes import stop_signals_interrupt

SCHEMA = 1
ALONE = [("none", "complete"), ("ddp", "complete"), ("allreduce", "complete")]
GOSSIP = [(name, topology) for topology in ("complete", "aer", "one_peer_hypercube") for name in ("awc", "decent-dp")]
#: load, workers, cells
LOADS: dict[str, tuple[int, list[tuple[str, str]]]] = {
    SLEEP: (4, [*ALONE, *GOSSIP]),
    DEFAULTS["task"]: (2, [*ALONE, *GOSSIP[:2]]),
}
MEMORY_CELLS = [*ALONE, *GOSSIP[:2], *GOSSIP[-2:]]
MEMORY = {"load": SLEEP, "buckets": 16, "elements": 2**20, "bucket": 4 * 2**20, "forward": 0.0, "backward": 0.0}
MEMORY_WORKERS = 4


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    rates: tuple[str, ...] = ("500mbit", "100mbit")
    forward_ms: float = 20.0  # of the load that is slept, as the next two
    backward_ms: float = 40.0
    buckets: int = 4
    bucket_kib: int = 512
    steps: int = 12  # a multiple of the topologies' periods
    repeats: int = 5
    memory: bool = True
    out: str = "results/local/bench.json"
    measured: str | None = None

    def __post_init__(self) -> None:
        for rate in self.rates:
            check_rate("rates", rate)
        if not self.out.endswith(".json"):
            raise ValueError(f"out={self.out}: must end in .json")
        if not self.rates:
            raise ValueError("rates=[]: give at least one")
        for key in ("buckets", "bucket_kib", "steps", "repeats"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key}={getattr(self, key)}: must be at least 1")


def run(given: Options) -> int:
    """Measure, write and print; returns the exit status."""
    if given.measured is not None:
        return _report(read_earlier(given.measured, SCHEMA, ("times", "memory", "shaped")), Path(given.out))
    check_reference()
    shaped, rates = _possible(given.rates)
    times: list[dict[str, Any]] = []
    memory: list[dict[str, Any]] = []
    with stop_signals_interrupt():
        for load, (workers, cells) in LOADS.items():
            plan = {**_plan(given), "what": "times", "load": load, "cells": cells}
            if shaped:
                times += _measure({**plan, "rates": [LOOPBACK]}, workers, None) + _measure(
                    {**plan, "rates": rates}, workers, rates[0]
                )
            else:
                times += _measure({**plan, "rates": [LOOPBACK, *rates]}, workers, None)
        for cell in MEMORY_CELLS if given.memory else ():
            memory += _measure({**MEMORY, "what": "memory", "cells": [cell]}, MEMORY_WORKERS, None)
    record = {
        **header(SCHEMA, given), "cores": os.cpu_count(), "shaped": shaped, "times": times, "memory": memory,
    }  # fmt: skip
    write_atomically(Path(given.out), json.dumps(record, indent=1))
    return _report(record, Path(given.out))


def _report(record: dict[str, Any], path: Path) -> int:
    text = step_table(record)
    write_atomically(path.with_suffix(".md"), text)
    print(f"{text}\n{path.with_suffix('.md')}")
    return 0


def _possible(rates: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether links can be shaped here, and the rates that can be measured."""
    try:
        check_possible()
    except ValueError as error:
        paced = sys.platform.startswith("linux")
        print(
            f"{error}; {'connections are paced instead' if paced else 'only the loopback is measured'}", file=sys.stderr
        )
        return False, list(rates) if paced else []
    return True, list(rates)


def _plan(given: Options) -> dict[str, Any]:
    return {
        "steps": given.steps, "repeats": given.repeats, "buckets": given.buckets, "elements": given.bucket_kib * 256,
        "bucket": given.bucket_kib * 1024, "forward": given.forward_ms / 1000, "backward": given.backward_ms / 1000,
    }  # fmt: skip


def _measure(plan: dict[str, Any], workers: int, rate: str | None) -> list[dict[str, Any]]:
    """What the workers have measured, over links of `rate` or on the loopback; RuntimeError if one has failed."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        names = stack.enter_context(hosts(workers, rate)) if rate else []
        out = Path(folder) / "found.json"
        command = ["python", "-m", "decent_core.lab.worker", json.dumps({**plan, "hosts": names, "out": str(out)})]
        status = run_workers(names, 1, command) if names else run_on_loopback(workers, command)
        if status:
            raise RuntimeError(f"a worker has ended with status {status}; its message is above")
        return json.loads(out.read_text())
