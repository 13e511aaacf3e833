"""A topology as text: its rounds in words, how fast it mixes, and what a worker sends."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from decent_core import topology as topologies
from decent_core.display.units import readable_bytes
from decent_core.report.round_text import counted, describe_round
from decent_core.topology import Topology, analysis

MOST_ROUNDS = 16
MOST_ANALYSED = 512
CLOSE, CONSENSUS = 1e-3, 1e-9


def summaries(names: Sequence[str]) -> str:
    """A line for each name: what the topology is."""
    width = max(map(len, names))
    return "\n".join(f"{name:{width}}  {topologies.summary(name)}" for name in names)


def short_name(topology: Topology) -> str:
    """Name, workers and layout, for a file: aer_16_4."""
    layout = "" if topology.local_size == 1 else f"_{str(topology.local_size).strip('()').replace(', ', '-')}"
    return f"{topology.name}_{topology.world_size}{layout}"


def show(topology: Topology, vector_bytes: float | None, console: Console) -> None:
    """Print all of it; amounts in vectors if the size of one is None."""
    console.print(_heading(topology), style="bold")
    console.print(_rounds(topology, vector_bytes))
    console.print(_facts(topology, vector_bytes))


def _heading(topology: Topology) -> str:
    sizes = topology.layout.node_sizes.tolist()
    nodes = (
        f"{counted(len(sizes), 'node')} of {sizes[0]}"
        if len(set(sizes)) == 1
        else f"nodes of {', '.join(map(str, sizes))}"
    )
    chosen = ", ".join(f"{key}={value}" for key, value in topology.options.items() if value is not None)
    world = counted(topology.world_size, "worker") + (f" on {nodes}" if max(sizes) > 1 else "")
    return f"{topology.name}{f' ({chosen})' if chosen else ''} over {world}\n{topologies.summary(topology.name)}"


def _rounds(topology: Topology, vector_bytes: float | None) -> Table:
    table = Table("round", "who averages with whom", "a worker sends" + (" (vectors)" if vector_bytes is None else ""))
    for step in range(min(topology.period, MOST_ROUNDS)):
        round_ = topology.round(step)
        sent = round_.bytes_sent(1.0)
        least, most = _amount(sent.min(), vector_bytes), _amount(sent.max(), vector_bytes)
        table.add_row(str(step), Text(describe_round(round_)), most if least == most else f"{least} to {most}")
    if topology.period > MOST_ROUNDS:
        table.add_row("\u2026", f"{topology.period - MOST_ROUNDS:,} more", "")
    return table


def _facts(topology: Topology, vector_bytes: float | None) -> Table:
    table = Table("property", "value", show_header=False)
    table.add_row("period", counted(topology.period, "round"))
    if topology.world_size <= MOST_ANALYSED:
        for row in [*(_spectrum if topology.period == 1 else _contraction)(topology), *_consensus(topology)]:
            table.add_row(*row)
    else:
        table.add_row("mixing", f"not computed beyond {MOST_ANALYSED} workers")
    sent = analysis.bytes_sent(topology, 1.0)
    vectors = " vectors" if vector_bytes is None else ""
    mean, most = _amount(sent.mean, vector_bytes), _amount(sent.max, vector_bytes)
    table.add_row("a worker sends a round", f"{mean}{vectors} on average, {most} at most")
    return table


def _spectrum(topology: Topology) -> list[tuple[str, str]]:
    rho = analysis.second_eigenvalue(topology.matrix(0))
    return [
        ("rho, second largest |eigenvalue| of W", f"{rho:.4f}"),
        ("spectral gap, 1 - rho", f"{1 - rho:.4f}"),
        ("error left by a round, \u2016W \u2212 J\u2016\u2082", f"{analysis.contraction(topology):.4f}"),
    ]


def _contraction(topology: Topology) -> list[tuple[str, str]]:
    per_round = analysis.contraction_per_round(topology)
    left = "0, the exact mean" if per_round == 0 else f"{analysis.contraction(topology):.4g}"
    return [
        ("error left by a period, \u2016W\u2026W \u2212 J\u2016\u2082", left),
        ("rho a round, geometric mean", f"{per_round:.4g}"),
        ("spectral gap a round, 1 - rho", f"{1 - per_round:.4g}"),
    ]


def _consensus(topology: Topology) -> list[tuple[str, str]]:
    rows = []
    for what, error in (("rounds to consensus, error < 1e-9", CONSENSUS), ("rounds to an error < 1e-3", CLOSE)):
        first, worst = analysis.rounds_to(topology, error), analysis.rounds_to_worst(topology, error)
        begun = "" if worst == first else f" ({worst:,} if begun in the worst round)"
        rows.append((what, "never" if first is None else f"{first:,}{begun}"))
    return rows


def _amount(vectors: float, vector_bytes: float | None) -> str:
    return f"{vectors:.4g}" if vector_bytes is None else readable_bytes(vectors * vector_bytes)
