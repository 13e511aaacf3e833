"""Say whether gossip will pay on a machine, and over which topology: a ranking, a picture and a verdict in words.

    python -m scripts.advise profile=profile.json
    python -m scripts.advise profile=profile.json link_gbps=10 latency_us=30 nodes=16 local_size=8
    python -m scripts.advise compute_ms=180 update_ms=4 parameters=124M link_gbps=25 latency_us=20 nodes=64 local_size=8

With a profile alone: the measured machine, at the measured number of workers, and at others where exchanges between
nodes were measured. With link_gbps and latency_us: a machine with such a link at each node, which its workers share;
local_gbps and local_latency_us are the links inside a node. Every worker keeps its batch, however many there are.
"Rounds to mix": how many rounds bring the workers' differences below 1/1000, from the worst round of the period.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from decent_core.config.command_line import options, run_main
from decent_core.runtime import Network, Noise
from decent_core.runtime.forecast import Outlook, predict
from decent_core.runtime.machines import Profile, read_profile
from decent_core.runtime.predict import Step
from scripts.topology import parse_number

MOST_POINTS = 6  # of the picture
WORTH = 1.05  # speed-up from which gossip pays
BYTES = 4  # of a parameter
WORDS = {
    "compute": "computing",
    "latency": "the latency of its exchanges",
    "bandwidth": "bandwidth",
    "stragglers": "workers that wait for slower ones",
}


@dataclass(frozen=True)
class Options:
    """A profile, or a step's times; and the links and the size of a machine that is not at hand."""

    profile: str | None = None
    compute_ms: float | None = None  # forward and backward pass of one worker, split 1 : 2
    update_ms: float = 0.0
    parameters: float | str | None = None
    bucket_mib: float = 25.0
    variance: float = 0.00695  # of computing times, without a profile
    link_gbps: float | None = None  # of each node
    latency_us: float | None = None
    local_gbps: float = 200.0
    local_latency_us: float = 10.0
    nodes: int | None = None
    local_size: int | None = None
    out: str = "results/local/advice.png"

    def __post_init__(self) -> None:
        if (self.profile is None) == (self.compute_ms is None):
            raise ValueError("profile, compute_ms: give one of them, the file of scripts.profile or a worker's step")
        if self.profile is None and (self.parameters is None or self.link_gbps is None):
            raise ValueError("compute_ms: give parameters=, link_gbps= and latency_us= with it")
        if (self.link_gbps is None) != (self.latency_us is None):
            raise ValueError("link_gbps, latency_us: give both, or none")
        if self.link_gbps is not None and (self.nodes is None or self.local_size is None):
            raise ValueError("link_gbps: give nodes= and local_size= with it")
        if self.link_gbps is None and (self.nodes is not None) != (self.local_size is not None):
            raise ValueError("nodes, local_size: give both, or none")
        for key in ("compute_ms", "link_gbps", "local_gbps", "nodes", "local_size", "bucket_mib"):
            value = getattr(self, key)
            if value is not None and not value > 0:
                raise ValueError(f"{key}={value}: must be above 0")
        for key in ("latency_us", "local_latency_us", "update_ms"):
            value = getattr(self, key)
            if value is not None and not value >= 0:
                raise ValueError(f"{key}={value}: must not be negative")
        for key in ("compute_ms", "update_ms", "latency_us", "local_latency_us"):
            if getattr(self, key) == math.inf:
                raise ValueError(f"{key}=inf: must be finite")
        if self.parameters is not None:
            parse_number("parameters", self.parameters)


def main(arguments: list[str]) -> None:
    """Predict, print ranking and verdict, draw."""
    given = options(Options, arguments, __doc__ or "")
    profile = read_profile(given.profile) if given.profile is not None else None
    step, network = _step(given, profile), _network(given)
    worlds = _worlds(given, profile)
    last = worlds[-1]
    outlooks = [found for world in worlds if (found := predict(step, profile, network, world, world == last))]
    if not outlooks or outlooks[-1].world_size != last[0]:
        raise ValueError(
            f"nodes={given.nodes}: {given.profile} has no exchange between nodes; give link_gbps= and latency_us="
        )
    console = Console(highlight=False)
    console.print(_ranking(outlooks[-1], step))
    console.print(verdict(outlooks[-1], step), soft_wrap=True)
    from decent_core.report.advice_picture import draw  # matplotlib takes a second

    print(f"picture: {draw(outlooks, last[1], Path(given.out))}")


def verdict(outlook: Outlook, step: Step) -> str:
    """The advice in words."""
    best = next(iter(outlook.gossip))
    gain, found, allreduce = outlook.speedup(best), outlook.gossip[best], outlook.allreduce
    times = (
        f"over {best}, the fastest topology, an iteration takes {_ms(found.seconds)}, with All-Reduce "
        f"{_ms(allreduce.seconds)}, computing alone {_ms(step.compute)}."
    )
    if gain < WORTH:
        answer = f"Gossip will hardly pay with {outlook.world_size:,} workers: {times} "
    else:
        equal = [n for n in outlook.gossip if n != best and outlook.speedup(n) > 0.98 * gain]
        also = f" About as fast: {', '.join(equal[:5])}." if equal else ""
        answer = f"Gossip will pay with {outlook.world_size:,} workers, {gain:.2f} times as fast: {times}{also} "
    limits = f"All-Reduce is limited by {WORDS[allreduce.limit]}, gossip over {best} by {WORDS[found.limit]}."
    end = "All of this is time alone: what a sparse topology loses in quality, only training shows."
    return f"{answer}{limits}{_mixing(outlook, best)} {end}"


def _mixing(outlook: Outlook, best: str) -> str:
    """A warning where a topology that mixes much faster costs little more, or where the fastest mixes slowly."""
    rounds = outlook.rounds.get(best)
    quicker = [
        name
        for name, own in outlook.rounds.items()
        if rounds and own and 2 * own <= rounds and outlook.speedup(name) > 1
    ]
    if not quicker:
        return ""
    fastest = max(quicker, key=outlook.speedup)
    return (
        f" {best} needs {rounds} rounds to mix; {fastest} only {outlook.rounds[fastest]}, "
        f"at {outlook.speedup(fastest):.2f} times All-Reduce's speed."
    )


def _step(given: Options, profile: Profile | None) -> Step:
    if profile is not None:
        return profile.step()
    assert given.compute_ms is not None
    assert given.parameters is not None
    seconds = given.compute_ms / 1000
    size = BYTES * parse_number("parameters", given.parameters)
    noise = Noise(given.variance)
    return Step(seconds / 3, 2 * seconds / 3, given.update_ms / 1000, size, given.bucket_mib * 2**20, noise)


def _network(given: Options) -> Network | None:
    if given.link_gbps is None or given.latency_us is None:
        return None
    local = given.local_gbps * 1e9 / 8, given.local_latency_us * 1e-6
    return Network(0.0, given.link_gbps * 1e9 / 8, given.latency_us * 1e-6, *local)


def _worlds(given: Options, profile: Profile | None) -> list[tuple[int, int]]:
    """Worlds of the picture, the one that is asked for last: nodes in powers of two (or of more, if there are many)."""
    if given.nodes is None or given.local_size is None:
        assert profile is not None
        return [profile.world]
    factor = 2
    while given.nodes > factor**MOST_POINTS:
        factor *= 2
    counts, nodes = [], given.nodes
    while nodes >= 1:
        counts.append(nodes)
        nodes //= factor
    worlds = [(count * given.local_size, given.local_size) for count in reversed(counts)]
    return [world for world in worlds if world[0] > 1] or worlds


def _ranking(outlook: Outlook, step: Step) -> Table:
    title = f"{outlook.world_size:,} workers, computing alone {_ms(step.compute)}"
    table = Table(
        "gossip over", "an iteration", "speed-up", "limited by", "rounds to mix", title=title, title_justify="left"
    )
    for name, found in outlook.gossip.items():
        rounds = outlook.rounds.get(name)
        cells = _ms(found.seconds), f"{outlook.speedup(name):.2f}", found.limit, "" if rounds is None else str(rounds)
        table.add_row(name, *cells)
    table.add_section()
    table.add_row("All-Reduce", _ms(outlook.allreduce.seconds), "1.00", outlook.allreduce.limit)
    return table


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.4g} ms"


if __name__ == "__main__":
    run_main(main)
