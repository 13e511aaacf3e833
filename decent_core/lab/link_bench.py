"""Measure training steps over links of several rates, beside the runtime model's predictions (Linux, root, iproute2).

    python -m scripts.bench network workers=8 nodes=4 rates=[50mbit,100mbit,200mbit,400mbit,1gbit]
    python -m scripts.bench network load=gpt2 workers=4 nodes=2 out=results/local/netbench_gpt2.png

The real engine, torch's DistributedDataParallel and the reference decent-dp, all over gloo in a network lab. With
load=sleep computing is slept, so that two cores can stand for many workers; with load=TASK that task at scale tiny
computes, and workers that share a core slow each other down. All cells are measured in turns, `repeats` times.
Predicted from exchanges and from computing, each measured in isolation at the same rate. Writes a picture, a table and
the measurements; measured=FILE makes picture and table of earlier measurements again.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from decent_core.config.choices import choices
from decent_core.config.validation import no_such
from decent_core.lab.launch import run_workers
from decent_core.lab.link_prediction import predict, steps_of
from decent_core.lab.namespaces import check_possible, check_rate, hosts
from decent_core.lab.record import SLEEP, check_reference, header, read_earlier
from decent_core.lab.report import LINK_CELLS, link_table
from decent_core.system.files import write_atomically
from decent_core.system.processes import stop_signals_interrupt

SCHEMA = 2
SLEPT = ("forward_ms", "backward_ms", "buckets")


@dataclass(frozen=True)
class Options:
    """The lab, and the load."""

    load: str = SLEEP  # or a task
    workers: int = 8
    nodes: int = 4
    rates: tuple[str, ...] = ("50mbit", "100mbit", "200mbit", "400mbit", "1gbit")
    forward_ms: float = 20.0  # of load=sleep, as the next two
    backward_ms: float = 40.0
    buckets: int = 4
    bucket_kib: int = 512
    steps: int = 12  # a multiple of the topologies' periods
    repeats: int = 3
    out: str = "results/local/netbench.png"
    measured: str | None = None

    def __post_init__(self) -> None:
        if self.load not in (known := [SLEEP, *choices("task")]):
            raise ValueError(f"load={self.load}: {no_such('load', self.load, known)}")
        if self.nodes < 2 or self.workers % self.nodes:
            raise ValueError(f"nodes={self.nodes}: must be at least 2 and divide workers={self.workers}")
        for rate in self.rates:
            check_rate("rates", rate)
        if not self.out.endswith(".png"):
            raise ValueError(f"out={self.out}: must end in .png")
        for key in ("buckets", "bucket_kib", "steps", "repeats"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key}={getattr(self, key)}: must be at least 1")
        if self.load != SLEEP and any(getattr(self, f.name) != f.default for f in fields(self) if f.name in SLEPT):
            raise ValueError(f"load={self.load}: {', '.join(SLEPT)} are for load=sleep")

    @property
    def local_size(self) -> int:
        return self.workers // self.nodes


def run(given: Options) -> int:
    """Measure, predict, write and print; returns the exit status of the workers."""
    if given.measured is not None:
        _report(read_earlier(given.measured, SCHEMA, ("measurements",)), Path(given.out))
        return 0
    check_possible()
    check_reference()
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "measured.json"
        with stop_signals_interrupt(), hosts(given.nodes, given.rates[0]) as names:
            status = run_workers(names, given.local_size, _command(given, names, raw))
        if status:
            return status
        found = json.loads(raw.read_text())
    record = {**header(SCHEMA, given), "measurements": found}
    path = Path(given.out)
    write_atomically(path.with_suffix(".json"), json.dumps(record, indent=1))
    _report(record, path)
    return 0


def _report(record: dict[str, Any], path: Path) -> None:
    """Write the table and the picture of a record beside each other, and print the table."""
    from decent_core.lab.link_picture import draw  # matplotlib takes a second

    given, found = record["options"], record["measurements"]
    cells = [(rate, *key) for rate in given["rates"] for key in LINK_CELLS]
    measured = {cell: [entry["seconds"] for entry in steps_of(found, cell)] for cell in cells}
    predicted = {cell: predict(given, found, cell) for cell in cells}
    text = link_table(found, measured, predicted)
    write_atomically(path.with_suffix(".md"), text)
    compute = float(np.median([sum(entry["computing"]) for entry in found if "computing" in entry]))
    draw(given, measured, predicted, compute, path)
    print(f"{text}\n{path}")


def _command(given: Options, names: Sequence[str], out: Path) -> list[str]:
    plan: dict[str, Any] = {
        "what": "links",
        "load": given.load, "hosts": list(names), "cells": list(LINK_CELLS), "rates": given.rates, "steps": given.steps,
        "repeats": given.repeats, "local_size": given.local_size, "buckets": given.buckets,
        "elements": given.bucket_kib * 256, "bucket": given.bucket_kib * 1024, "forward": given.forward_ms / 1000,
        "backward": given.backward_ms / 1000, "out": str(out),
    }  # fmt: skip
    return ["python", "-m", "decent_core.lab.worker", json.dumps(plan)]
