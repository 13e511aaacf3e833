"""A forecast as text: which topologies are fastest, what limits them, and whether gossip pays."""

from rich.table import Table

from decent_core.runtime.forecast import Forecast
from decent_core.runtime.predict import Step

WORTH = 1.05  # speed-up from which gossip pays
LIMITS = {
    "compute": "computing",
    "latency": "the latency of its exchanges",
    "bandwidth": "bandwidth",
    "stragglers": "workers that wait for slower ones",
}


def ranking(forecast: Forecast, step: Step) -> Table:
    """All-Reduce and every topology, fastest first."""
    title = f"{forecast.world_size:,} workers, computing alone {_ms(step.compute)}"
    table = Table(
        "gossip over", "an iteration", "speed-up", "limited by", "rounds to mix", title=title, title_justify="left"
    )
    for name, found in forecast.gossip.items():
        rounds = forecast.rounds.get(name)
        cells = _ms(found.seconds), f"{forecast.speedup(name):.2f}", found.limit, "" if rounds is None else str(rounds)
        table.add_row(name, *cells)
    table.add_section()
    table.add_row("All-Reduce", _ms(forecast.allreduce.seconds), "1.00", forecast.allreduce.limit)
    return table


def verdict(forecast: Forecast, step: Step) -> str:
    """The advice in words."""
    best = next(iter(forecast.gossip))
    gain, found, allreduce = forecast.speedup(best), forecast.gossip[best], forecast.allreduce
    times = (
        f"over {best}, the fastest topology, an iteration takes {_ms(found.seconds)}, with All-Reduce "
        f"{_ms(allreduce.seconds)}, computing alone {_ms(step.compute)}."
    )
    if gain < WORTH:
        answer = f"Gossip will hardly pay with {forecast.world_size:,} workers: {times} "
    else:
        equal = [n for n in forecast.gossip if n != best and forecast.speedup(n) > 0.98 * gain]
        also = f" About as fast: {', '.join(equal[:5])}." if equal else ""
        answer = f"Gossip will pay with {forecast.world_size:,} workers, {gain:.2f} times as fast: {times}{also} "
    limits = f"All-Reduce is limited by {LIMITS[allreduce.limit]}, gossip over {best} by {LIMITS[found.limit]}."
    end = "All of this is time alone: what a sparse topology loses in quality, only training shows."
    return f"{answer}{limits}{_mixing(forecast, best)} {end}"


def _mixing(forecast: Forecast, best: str) -> str:
    """A warning where a topology that mixes much faster costs little more, or where the fastest mixes slowly."""
    rounds = forecast.rounds.get(best)
    quicker = [
        name
        for name, own in forecast.rounds.items()
        if rounds and own and 2 * own <= rounds and forecast.speedup(name) > 1
    ]
    if not quicker:
        return ""
    fastest = max(quicker, key=forecast.speedup)
    return (
        f" {best} needs {rounds} rounds to mix; {fastest} only {forecast.rounds[fastest]}, "
        f"at {forecast.speedup(fastest):.2f} times All-Reduce's speed."
    )


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.4g} ms"
