"""The tables of the benches: ratios of step times beside the aims, memory; steps over links, measured and predicted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from decent_core.lab.link_prediction import steps_of
from decent_core.lab.namespaces import megabits
from decent_core.topology import build

LOOPBACK = "loopback"
NAMES = {
    "none": "no exchange", "ddp": "All-Reduce, torch DDP", "allreduce": "All-Reduce, this engine",
    "awc": "gossip, this engine", "decent-dp": "gossip, decent-dp",
}  # fmt: skip
TOPOLOGIES = {"complete": "complete", "aer": "AER", "one_peer_hypercube": "one-peer exponential"}
#: bytes on the wire for a byte sent: a full Ethernet frame, as the shaper counts it, carries 1448 of its 1514 bytes
WIRE = 1514 / 1448
LINK_CELLS = {
    ("allreduce", "complete"): "All-Reduce (DDP)",
    ("awc", "complete"): "gossip, complete",
    ("decent-dp", "complete"): "decent-dp, complete",
    ("awc", "aer"): "gossip, AER",
    ("decent-dp", "aer"): "decent-dp, AER",
    ("awc", "one_peer_hypercube"): "gossip, one-peer exponential (pairs)",
    ("decent-dp", "one_peer_hypercube"): "decent-dp, one-peer exponential (pairs)",
    ("awc", "one_peer_exp"): "gossip, one-peer exponential (directed)",
}
NEAR = 0.1  # of the measured time; a prediction this close counts as right
HIDDEN, BOUND, SAME = 1.03, 1.05, 0.01
Cell = tuple[str, str]
LinkCell = tuple[str, str, str]  # rate, method, topology
Line = tuple[list[str], bool | None]  # cells of a line of the table, and whether its aim is met


def step_table(record: Mapping[str, Any]) -> str:
    """What `scripts.bench steps` has measured, as Markdown."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in record["times"]:
        groups.setdefault((entry["load"], entry["rate"]), []).append(entry)
    lines: list[Line] = [line for (load, rate), own in groups.items() for line in _group(f"{load}, {rate}", rate, own)]
    met = [aim for _, aim in lines if aim is not None]
    repeats = record["options"]["repeats"]
    parts = [
        _markdown(["load, network", "", "ms a step (range)", "compared with", "ratio (range)", "aim", "met"], lines),
        f"Aims met: {sum(met)} of {len(met)}. Times and ratios are medians over {repeats} repeats; the two times of a "
        "ratio are of the same repeat.",
    ]
    if not record["shaped"]:
        parts.append(
            "Links could not be shaped (no root or no iproute2): every connection was paced to its rate instead. "
            "A worker with exchanges under way to two others, as decent-dp has from one round to the next, is then "
            "faster than a link of its own would let it be."
        )
    if record["memory"]:
        parts.append(_memory(record["memory"]))
    return "\n\n".join(parts) + "\n"


def _group(name: str, rate: str, entries: Sequence[dict[str, Any]]) -> Iterator[Line]:
    """The lines of one load on one network."""
    times: dict[Cell, np.ndarray] = {}
    for entry in sorted(entries, key=lambda e: e["repeat"]):
        cell = entry["method"], entry["topology"]
        times[cell] = np.append(times.get(cell, []), entry["seconds"])
    alone = times["none", "complete"]
    for cell, seconds in times.items():
        start = [name, _name(cell), _range(1000 * seconds, 1)]
        if cell[0] == "awc":
            entry = next(e for e in entries if (e["method"], e["topology"]) == cell)
            yield _against_bound(start, rate, entry, seconds, alone)
            ratio = seconds / times["decent-dp", cell[1]]
            yield _line(["", "", ""], "decent-dp", ratio, "not slower in all repeats", ratio.min() <= 1)
        elif cell[0] == "allreduce":
            ratio = seconds / times["ddp", "complete"]
            yield _line(start, "torch DDP", ratio, f"within {SAME:.0%}", abs(np.median(ratio) - 1) <= SAME)
        else:
            yield [*start, "", "", "", ""], None


def _against_bound(
    start: list[str], rate: str, entry: Mapping[str, Any], seconds: np.ndarray, alone: np.ndarray
) -> Line:
    """A gossip step beside the step without exchange, or beside what the link allows where that is longer."""
    if rate != LOOPBACK:
        topology = build(entry["topology"], entry["workers"], entry["local_size"])
        sent = np.array([topology.round(t).bytes_sent(entry["parameter_bytes"]) for t in range(topology.period)])
        link = sent * WIRE * 8 / (megabits(rate) * 1e6)  # [rounds, workers]: each worker has a link of its own
        if link.max() > np.median(alone):
            bound = np.array([np.maximum(link, own).mean() for own in alone])
            ratio = seconds / bound
            return _line(start, "max(computing, bytes / rate)", ratio, f"≤ {BOUND}", np.median(ratio) <= BOUND)
    ratio = seconds / alone
    return _line(start, "no exchange", ratio, f"≤ {HIDDEN}", np.median(ratio) <= HIDDEN)


def _memory(entries: Sequence[Mapping[str, Any]]) -> str:
    """Peak memory of training, in copies of the parameters."""
    lines: list[Line] = []
    for entry in entries:
        copies = np.array(entry["peak_mib"]) / entry["parameters_mib"]
        cells = [_name((entry["method"], entry["topology"])), f"{max(entry['peak_mib']):.0f}", _range(copies, 2)]
        lines.append((cells, None))
    size = entries[0]["parameters_mib"]
    head = ["", "peak MiB, largest worker", f"copies of the parameters ({size:.0f} MiB), all workers"]
    text = "What training adds to the peak memory of a worker (parameters, gradients, two moments of AdamW, exchange):"
    return f"{text}\n\n{_markdown(head, lines)}"


def link_table(
    found: Sequence[dict[str, Any]], measured: Mapping[LinkCell, Sequence[float]], predicted: Mapping[LinkCell, float]
) -> str:
    """Seconds of a step of every cell, measured in each repeat and predicted, as Markdown."""
    lines = [
        "| rate | | measured / ms (range) | predicted / ms | predicted / measured | wait / ms | MB sent a step |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell, seconds in measured.items():
        own = steps_of(found, cell)
        wait = f"{1000 * np.median([entry['wait'] for entry in own]):.1f}" if cell[1] == "awc" else ""
        cells = (
            cell[0], LINK_CELLS[cell[1:]], _range(1000 * np.array(seconds), 1), f"{1000 * predicted[cell]:.1f}",
            f"{predicted[cell] / float(np.median(seconds)):.3f}", wait, f"{own[0]['bytes'] / 1e6:.2f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, _near(measured, predicted)])


def _near(measured: Mapping[LinkCell, Sequence[float]], predicted: Mapping[LinkCell, float]) -> str:
    """How many cells are predicted well, in all and line by line."""
    right = {cell: abs(predicted[cell] / float(np.median(seconds)) - 1) <= NEAR for cell, seconds in measured.items()}
    parts = []
    for key, name in LINK_CELLS.items():
        own = [value for cell, value in right.items() if cell[1:] == key]
        parts.append(f"{name} {sum(own)} of {len(own)}")
    return f"\nPredicted within {NEAR:.0%}: {sum(right.values())} of {len(right)} cells ({'; '.join(parts)}).\n"


def _name(cell: Cell) -> str:
    return NAMES[cell[0]] + (f", {TOPOLOGIES[cell[1]]}" if cell[0] in ("awc", "decent-dp") else "")


def _line(start: list[str], other: str, ratio: np.ndarray, aim: str, met: Any) -> Line:
    return [*start, other, _range(ratio, 3), aim, "yes" if met else "**no**"], bool(met)


def _range(values: np.ndarray, digits: int) -> str:
    """The median and, in brackets, the smallest and the largest."""
    return f"{np.median(values):.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"


def _markdown(head: list[str], lines: Sequence[Line]) -> str:
    rows = [head, ["---"] * len(head), *(cells for cells, _ in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
