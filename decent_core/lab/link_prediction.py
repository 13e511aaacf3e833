"""What the runtime model predicts for a training step, from computing and exchanges that were measured in isolation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from decent_core.runtime import Noise
from decent_core.runtime.exchanges import Key
from decent_core.runtime.interconnect import Measured
from decent_core.runtime.predict import PIECES, Step, predict_allreduce, predict_gossip
from decent_core.topology import build

Cell = tuple[str, str, str]  # rate, method, topology


def steps_of(found: Sequence[dict[str, Any]], cell: Cell) -> list[dict[str, Any]]:
    """The measured steps of one cell."""
    return [m for m in found if "seconds" in m and (m["rate"], m["method"], m["topology"]) == cell]


def predict(given: Mapping[str, Any], found: Sequence[dict[str, Any]], cell: Cell) -> float:
    """Seconds of a step of the cell; `given` is the bench's options, `found` all of its measurements."""
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
