"""Say whether gossip will pay on a machine, and over which topology: a ranking, a picture and a verdict in words.

    python -m scripts.advise profile=profile.json                    # of scripts.bench profile
    python -m scripts.advise profile=profile.json link_gbps=10 latency_us=30 nodes=16 local_size=8
    python -m scripts.advise compute_ms=180 update_ms=4 parameters=124M link_gbps=25 latency_us=20 nodes=64 local_size=8

With a profile alone: the measured machine, at the measured number of workers, and at others where exchanges between
nodes were measured. With link_gbps and latency_us: a machine with such a link at each node, which its workers share;
local_gbps and local_latency_us are the links inside a node. Every worker keeps its batch, however many there are.
"Rounds to mix": how many rounds bring the workers' differences below 1/1000, from the worst round of the period.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.config.command_line import options, run_main
from decent_core.report.advice import ranking, verdict
from decent_core.runtime.forecast import forecast
from decent_core.runtime.machine_options import MachineOptions
from decent_core.runtime.machines import read_profile


@dataclass(frozen=True)
class Options(MachineOptions):
    """The machine, and where the picture goes."""

    out: str = "results/local/advice.png"


def main(arguments: Sequence[str]) -> None:
    """Predict, print ranking and verdict, draw."""
    given = options(Options, arguments, __doc__ or "")
    profile = read_profile(given.profile) if given.profile is not None else None
    step, network = given.step(profile), given.network()
    layouts = given.layouts(profile)
    forecasts = [
        found for layout in layouts if (found := forecast(step, profile, network, layout, layout == layouts[-1]))
    ]
    if not forecasts or forecasts[-1].world_size != layouts[-1][0]:
        raise ValueError(
            f"nodes={given.nodes}: {given.profile} has no exchange between nodes; give link_gbps= and latency_us="
        )
    console = Console(highlight=False)
    console.print(ranking(forecasts[-1], step))
    console.print(verdict(forecasts[-1], step), soft_wrap=True)
    from decent_core.report.advice_picture import draw  # matplotlib takes a second

    print(f"picture: {draw(forecasts, layouts[-1][1], Path(given.out))}")


if __name__ == "__main__":
    run_main(main)
