"""Show a topology: its rounds in words, how fast it mixes, what a worker sends; and draw it.

    python -m scripts.topology name=aer world_size=16 local_size=4
    python -m scripts.topology name=base_k world_size=6 k=2 parameters=124M out=base_k.png

`local_size` is the number of workers on a node, or a list of the nodes' sizes: local_size=[4,2].
`parameters` (32 bits each) or `bytes` is the size of the vector that workers exchange; K, M or G may follow the number.
`out` is the picture, by default a file in results/local/topology/.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from decent_core import topology as topologies
from decent_core.config.command_line import options, run_main
from decent_core.display.units import parse_number
from decent_core.report import topology_text

PICTURES = Path("results/local/topology")
MOST_DRAWN = 64


@dataclass(frozen=True)
class Options:
    """What every topology takes; each has options of its own besides."""

    name: str
    world_size: int
    local_size: int | list[int] = 1
    parameters: float | str | None = None
    bytes: float | str | None = None
    out: str | None = None

    def __post_init__(self) -> None:
        if self.parameters is not None and self.bytes is not None:
            raise ValueError("parameters, bytes: give one of them")
        if self.out is not None and not self.out.endswith(".png"):
            raise ValueError(f"out={self.out}: must end in .png")

    def vector_bytes(self) -> float | None:
        """The size of one exchanged vector; None if none is given."""
        if self.parameters is not None:
            return 4 * parse_number("parameters", self.parameters)
        return None if self.bytes is None else parse_number("bytes", self.bytes)


def main(arguments: Sequence[str]) -> None:
    """Print and draw the topology that the `key=value` arguments describe."""
    name = next((text.removeprefix("name=") for text in arguments if text.startswith("name=")), None)
    if name is None and not {"--help", "-h"} & set(arguments):
        raise ValueError(f"name: a value is missing; choose one of {', '.join(topologies.names())}")
    own = {} if name is None else topologies.options(name)
    extended = [(key, Any, field(default=default)) for key, default in own.items()]
    usage = f"{__doc__}\n{topology_text.summaries(topologies.names() if name is None else [name])}"
    given: Any = options(make_dataclass("TopologyOptions", extended, bases=(Options,), frozen=True), arguments, usage)
    chosen = {key: getattr(given, key) for key in own}
    topology = topologies.build(given.name, given.world_size, given.local_size, **chosen)
    console = Console(highlight=False)
    topology_text.show(topology, given.vector_bytes(), console)
    if given.out is None and topology.world_size > MOST_DRAWN:
        console.print(f"not drawn: more than {MOST_DRAWN} workers (out=FILE.png draws them all the same)")
        return
    from decent_core.report.topology_picture import draw  # matplotlib takes a second, and not every call draws

    picture = PICTURES / f"{topology_text.short_name(topology)}.png" if given.out is None else Path(given.out)
    draw(topology, picture)
    console.print(f"picture: {picture}", soft_wrap=True)


if __name__ == "__main__":
    run_main(main)
