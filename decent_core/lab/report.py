"""The tables of scripts.bench: ratios of step times, pair by pair, beside the aims; and memory."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

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
HIDDEN, BOUND, SAME = 1.03, 1.05, 0.01
Cell = tuple[str, str]


Line = tuple[list[str], bool | None]  # cells of a line of the table, and whether its aim is met


def table(record: Mapping[str, Any]) -> str:
    """All of it as markdown."""
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
