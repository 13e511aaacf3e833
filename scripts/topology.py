"""Show a topology: its rounds in words, how fast it mixes, what a worker sends; and draw it.

    python -m scripts.topology name=aer world_size=16 local_size=4
    python -m scripts.topology name=base_k world_size=6 k=2 parameters=124M out=base_k.png

`local_size` is the number of workers on a node, or a list of the nodes' sizes: local_size=[4,2].
`parameters` (32 bits each) or `bytes` is the size of the vector that workers exchange; K, M or G may follow the number.
`out` is the picture, by default a file in results/local/topology/.
"""

import math
import re
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from decent_core import topology as topologies
from decent_core.config.command_line import options, run_main
from decent_core.topology import Topology, analysis
from decent_core.topology.describe import counted, describe_round

PICTURES = Path("results/local/topology")
MOST_ROUNDS = 16
MOST_ANALYSED, MOST_DRAWN = 512, 64
CLOSE, CONSENSUS = 1e-3, 1e-9
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


def main(arguments: list[str]) -> None:
    """Print and draw the topology that the `key=value` arguments describe."""
    given = _parsed(arguments)
    own = {key: getattr(given, key) for key in topologies.options(given.name)}
    topology = topologies.build(given.name, given.world_size, given.local_size, **own)
    vector_bytes = _vector_bytes(given.parameters, given.bytes)
    picture = _picture(topology, given.out)
    console = Console(highlight=False)
    console.print(_heading(topology), style="bold")
    console.print(_rounds(topology, vector_bytes))
    console.print(_facts(topology, vector_bytes))
    if picture is None:
        console.print(f"not drawn: more than {MOST_DRAWN} workers (out=FILE.png draws them all the same)")
        return
    from decent_core.report.topology_picture import draw  # matplotlib takes a second, and not every call draws

    draw(topology, picture)
    console.print(f"picture: {picture}", soft_wrap=True)


def _parsed(arguments: list[str]) -> Any:
    """The arguments as a dataclass whose fields are the common keys and the options of the named topology."""
    name = next((text.removeprefix("name=") for text in arguments if text.startswith("name=")), None)
    common: list[tuple[str, Any, Any]] = [
        ("name", str, field()),
        ("world_size", int, field()),
        ("local_size", int | list[int], field(default=1)),
        ("parameters", float | str | None, field(default=None)),
        ("bytes", float | str | None, field(default=None)),
        ("out", str | None, field(default=None)),
    ]
    if name is None and not {"--help", "-h"} & set(arguments):
        raise ValueError(f"name: a value is missing; choose one of {', '.join(topologies.names())}")
    own = topologies.options(name) if name is not None else {}
    fields_ = common + [(key, Any, field(default=default)) for key, default in own.items()]
    return options(make_dataclass("TopologyArguments", fields_, frozen=True), arguments, _usage(name))


def _usage(name: str | None) -> str:
    listed = topologies.names() if name is None else [name]
    width = max(map(len, listed))
    return (__doc__ or "") + "\n" + "\n".join(f"{n:{width}}  {topologies.summary(n)}" for n in listed)


def _vector_bytes(parameters: float | str | None, bytes_: float | str | None) -> float | None:
    """The size of one exchanged vector, or None if none is given."""
    if parameters is not None and bytes_ is not None:
        raise ValueError("parameters, bytes: give one of them")
    if parameters is not None:
        return 4 * parse_number("parameters", parameters)
    return None if bytes_ is None else parse_number("bytes", bytes_)


def parse_number(key: str, value: float | str) -> float:
    """A size that may end in K, M or G; raises ValueError if it is none."""
    match = re.fullmatch(r"(\d+\.?\d*(?:e\d+)?)([KMG]?)", str(value), flags=re.IGNORECASE)
    if match is None:
        raise ValueError(f"{key}={value}: must be a number such as 124000000 or 124M")
    number = float(match[1]) * UNITS[match[2].upper()]
    if not 0 < number < math.inf:
        raise ValueError(f"{key}={value}: must be above 0, and finite")
    return number


def _heading(topology: Topology) -> str:
    sizes = topology.world.node_sizes.tolist()
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
        least, most = _size(sent.min(), vector_bytes), _size(sent.max(), vector_bytes)
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
    mean, most = _size(sent.mean, vector_bytes), _size(sent.max, vector_bytes)
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


def _size(vectors: float, vector_bytes: float | None) -> str:
    if vector_bytes is None:
        return f"{vectors:.4g}"
    amount = vectors * vector_bytes
    unit = next((u for u in "GMK" if amount >= UNITS[u]), "")
    return f"{amount / UNITS[unit]:.4g} {unit.replace('K', 'k')}B"


def _picture(topology: Topology, out: str | None) -> Path | None:
    """Where the picture goes; None: nobody asked to have so many workers drawn."""
    if out is None:
        layout = "" if topology.local_size == 1 else f"_{str(topology.local_size).strip('()').replace(', ', '-')}"
        path = PICTURES / f"{topology.name}_{topology.world_size}{layout}.png"
        return path if topology.world_size <= MOST_DRAWN else None
    if Path(out).suffix != ".png":
        raise ValueError(f"out={out}: must end in .png")
    return Path(out)


if __name__ == "__main__":
    run_main(main)
