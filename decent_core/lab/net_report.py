"""Table and picture of what scripts.netbench has measured, beside what the runtime model predicts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from decent_core.runtime import Noise
from decent_core.runtime.exchanges import Key
from decent_core.runtime.interconnect import Measured
from decent_core.runtime.predict import PIECES, Step, predict_allreduce, predict_gossip
from decent_core.system.files import write_atomically
from decent_core.topology import build

CELLS = {
    ("allreduce", "complete"): "All-Reduce (DDP)",
    ("awc", "complete"): "gossip, complete",
    ("decent-dp", "complete"): "decent-dp, complete",
    ("awc", "aer"): "gossip, AER",
    ("decent-dp", "aer"): "decent-dp, AER",
    ("awc", "one_peer_hypercube"): "gossip, one-peer exponential (pairs)",
    ("decent-dp", "one_peer_hypercube"): "decent-dp, one-peer exponential (pairs)",
    ("awc", "one_peer_exp"): "gossip, one-peer exponential (directed)",
}
Cell = tuple[str, str, str]  # rate, method, topology
NEAR = 0.1  # of the measured time; a prediction this close counts as right


def report(record: dict[str, Any], path: Path) -> None:
    """Write the table and the picture of a record beside each other, and print the table."""
    from decent_core.lab.net_picture import draw  # matplotlib takes a second

    given, found = record["options"], record["measurements"]
    cells = [(rate, *key) for rate in given["rates"] for key in CELLS]
    measured = {cell: [m["seconds"] for m in _of(found, cell)] for cell in cells}
    predicted = {cell: _predict(given, found, cell) for cell in cells}
    text = _table(found, measured, predicted) + _near(measured, predicted)
    write_atomically(path.with_suffix(".md"), text)
    compute = float(np.median([sum(m["computing"]) for m in found if "computing" in m]))
    draw(given, measured, predicted, compute, path)
    print(f"{text}\n{path}")


def _of(found: Sequence[dict[str, Any]], cell: Cell) -> list[dict[str, Any]]:
    return [m for m in found if "seconds" in m and (m["rate"], m["method"], m["topology"]) == cell]


def _predict(given: dict[str, Any], found: Sequence[dict[str, Any]], cell: Cell) -> float:
    rate, method, name = cell
    times: dict[tuple[Key, int], list[float]] = {}
    for m in found:
        if "times" in m and (m["rate"], m["topology"]) == (rate, name):
            key = m["kind"], m["size"], m["crosses"], m["load"]
            times.setdefault((key, m["bytes"]), []).extend(m["times"])
    table: dict[Key, dict[int, float]] = {}
    for (key, size), own in times.items():
        table.setdefault(key, {})[size] = float(np.median(own))
    message = next(m["message_bytes"] for m in found if "message_bytes" in m)
    bucket = min(given["bucket_kib"] * 1024, message)
    computing = [m["computing"] for m in found if "computing" in m and m["rate"] == rate]
    forward, backward, update = np.median(computing, axis=0).tolist()
    step = Step(forward, backward, update, message, bucket, Noise(), PIECES)
    workers, local_size = given["workers"], given["workers"] // given["nodes"]
    if method == "allreduce":
        return predict_allreduce(step, Measured(table), workers, local_size, explain=False).seconds
    built = build(name, workers, local_size)
    return predict_gossip(step, Measured(table), built, explain=False, bucket_wise=method == "decent-dp").seconds


def _table(found: Sequence[dict[str, Any]], measured: dict[Cell, list[float]], predicted: dict[Cell, float]) -> str:
    lines = [
        "| rate | | measured / ms (range) | predicted / ms | predicted / measured | wait / ms | MB sent a step |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell, seconds in measured.items():
        own = _of(found, cell)
        median = float(np.median(seconds))
        wait = f"{1000 * np.median([m['wait'] for m in own]):.1f}" if cell[1] == "awc" else ""
        cells = (
            cell[0], CELLS[cell[1:]], f"{1000 * median:.1f} ({1000 * min(seconds):.1f} to {1000 * max(seconds):.1f})",
            f"{1000 * predicted[cell]:.1f}", f"{predicted[cell] / median:.3f}", wait, f"{own[0]['bytes'] / 1e6:.2f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _near(measured: dict[Cell, list[float]], predicted: dict[Cell, float]) -> str:
    """How many cells are predicted well, in all and line by line."""
    right = {cell: abs(predicted[cell] / float(np.median(own)) - 1) <= NEAR for cell, own in measured.items()}
    parts = []
    for key, name in CELLS.items():
        own = [value for cell, value in right.items() if cell[1:] == key]
        parts.append(f"{name} {sum(own)} of {len(own)}")
    return f"\nPredicted within {NEAR:.0%}: {sum(right.values())} of {len(right)} cells ({'; '.join(parts)}).\n"
