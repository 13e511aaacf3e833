"""Measure training steps over links of several rates, beside the runtime model's predictions (Linux, root, iproute2).

    python -m scripts.netbench workers=8 nodes=4 rates=[50mbit,100mbit,200mbit,400mbit,1gbit]

The real engine, torch's DistributedDataParallel and gloo in a network lab; computing is slept, so that two cores can
stand for many workers. All cells are measured in turns, `repeats` times. Predicted from exchanges and from computing,
each measured in isolation at the same rate. Writes a picture, a table and the measurements.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from decent_core.record import git_state, versions, write_atomically
from decent_core.runtime import Noise
from decent_core.runtime.costs import Key
from decent_core.runtime.predict import Measured, Step, predict_allreduce, predict_gossip
from decent_core.topology import build
from scripts.cli import options, run_main
from scripts.namespaces import RATE, check_possible, hosts
from scripts.netlab import run_workers
from scripts.processes import stop_signals_interrupt

CELLS = {
    ("allreduce", "complete"): "All-Reduce (DDP)",
    ("awc", "complete"): "gossip, complete",
    ("awc", "aer"): "gossip, AER",
    ("awc", "one_peer_exp"): "gossip, one-peer exponential",
}
Cell = tuple[str, str, str]  # rate, method, topology


@dataclass(frozen=True)
class Options:
    """The lab, and the step that is slept."""

    workers: int = 8
    nodes: int = 4
    rates: tuple[str, ...] = ("50mbit", "100mbit", "200mbit", "400mbit", "1gbit")
    forward_ms: float = 20.0
    backward_ms: float = 40.0
    buckets: int = 4
    bucket_kib: int = 512
    steps: int = 12  # a multiple of the topologies' periods
    repeats: int = 5
    out: str = "results/local/netbench.png"

    def __post_init__(self) -> None:
        if self.nodes < 2 or self.workers % self.nodes:
            raise ValueError(f"nodes={self.nodes}: must be at least 2 and divide workers={self.workers}")
        if wrong := [rate for rate in self.rates if not RATE.fullmatch(rate)]:
            raise ValueError(f"rates: {wrong[0]} is no rate such as 100mbit or 1gbit")
        for key in ("buckets", "bucket_kib", "steps", "repeats"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key}={getattr(self, key)}: must be at least 1")

    @property
    def local_size(self) -> int:
        return self.workers // self.nodes


def main(arguments: Sequence[str]) -> int:
    """Measure, predict, write and print; returns the exit status of the workers."""
    given = options(Options, arguments, __doc__ or "")
    check_possible()
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "measured.json"
        with stop_signals_interrupt(), hosts(given.nodes, given.rates[0]) as names:
            status = run_workers(names, given.local_size, _command(given, names, raw))
        if status:
            return status
        found = json.loads(raw.read_text())
    report(given, found)
    return 0


def report(given: Options, found: Sequence[dict[str, Any]]) -> None:
    """Write measurements, table and picture, and print the table."""
    from scripts.netbench_picture import draw  # matplotlib takes a second

    path = Path(given.out)
    measured = {
        cell: [m["seconds"] for m in found if "seconds" in m and (m["rate"], m["method"], m["topology"]) == cell]
        for cell in [(rate, *key) for rate in given.rates for key in CELLS]
    }
    predicted = {cell: _predict(given, found, cell) for cell in measured}
    commit, dirty = git_state()
    record = {
        "schema": 1, "source": "measured", "options": asdict(given), "git_commit": commit, "git_dirty": dirty,
        "versions": versions(), "measurements": list(found),
    }  # fmt: skip
    write_atomically(path.with_suffix(".json"), json.dumps(record, indent=1).encode())
    text = _table(measured, predicted, found)
    write_atomically(path.with_suffix(".md"), text.encode())
    draw(given.rates, measured, predicted, (given.forward_ms + given.backward_ms) / 1000, path)
    print(f"{text}\n{path}")


def _command(given: Options, names: Sequence[str], out: Path) -> list[str]:
    plan = {
        "hosts": list(names), "cells": list(CELLS), "rates": given.rates, "steps": given.steps,
        "repeats": given.repeats, "local_size": given.local_size, "buckets": given.buckets,
        "elements": given.bucket_kib * 256, "forward": given.forward_ms / 1000,
        "backward": given.backward_ms / 1000, "out": str(out),
    }  # fmt: skip
    return ["python", "-m", "scripts.netbench_worker", json.dumps(plan)]


def _predict(given: Options, found: Sequence[dict[str, Any]], cell: Cell) -> float:
    rate, method, name = cell
    times: dict[tuple[Key, int], list[float]] = {}
    for m in found:
        if "times" in m and (m["rate"], m["topology"]) == (rate, name):
            key = m["kind"], m["size"], m["crosses"], m["load"]
            times.setdefault((key, m["bytes"]), []).extend(m["times"])
    table: dict[Key, dict[int, float]] = {}
    for (key, size), own in times.items():
        table.setdefault(key, {})[size] = float(np.median(own))
    bucket = given.bucket_kib * 1024.0
    computing = [m["computing"] for m in found if "computing" in m and m["rate"] == rate]
    forward, backward, update = np.median(computing, axis=0).tolist()
    step = Step(forward, backward, update, bucket * given.buckets, bucket, Noise())
    if method == "allreduce":
        return predict_allreduce(step, Measured(table), given.workers, given.local_size, explain=False).seconds
    built = build(name, given.workers, given.local_size)
    return predict_gossip(step, Measured(table), built, explain=False).seconds


def _table(measured: dict[Cell, list[float]], predicted: dict[Cell, float], found: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| rate | | measured / ms (range) | predicted / ms | predicted / measured | wait / ms | MB sent, last step |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell, seconds in measured.items():
        own = [m for m in found if "seconds" in m and (m["rate"], m["method"], m["topology"]) == cell]
        median = float(np.median(seconds))
        wait = "" if cell[1] == "allreduce" else f"{1000 * np.median([m['wait'] for m in own]):.1f}"
        cells = (
            cell[0], CELLS[cell[1:]], f"{1000 * median:.1f} ({1000 * min(seconds):.1f} to {1000 * max(seconds):.1f})",
            f"{1000 * predicted[cell]:.1f}", f"{predicted[cell] / median:.3f}", wait, f"{own[0]['bytes'] / 1e6:.2f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_main(main)
