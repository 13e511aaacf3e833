"""The picture of a forecast: time of an iteration by topology, and the speed-up over the number of workers."""

from collections.abc import Sequence
from pathlib import Path

from decent_core.report.figures import COLOURS
from decent_core.report.plots import GREY, label, new_figure, save
from decent_core.runtime.forecast import Forecast

MOST_LINES = 5


def draw(forecasts: Sequence[Forecast], local_size: int, path: Path) -> Path:
    """Bars for the last forecast; lines over all, if there are several, for its fastest topologies."""
    last = forecasts[-1]
    several = len(forecasts) > 1
    figure, panels = new_figure(1, 1 + several, (6.4 * (1 + several), 4.8))
    names = ["All-Reduce", *reversed(last.gossip)]
    seconds = [last.allreduce.seconds, *(last.gossip[name].seconds for name in names[1:])]
    shades = [COLOURS[1], *([COLOURS[0]] * len(last.gossip))]
    bars = panels[0, 0].barh(names, [1000 * s for s in seconds], color=shades)
    panels[0, 0].bar_label(bars, [f"{1000 * s:.4g}" for s in seconds], padding=3, color=GREY)
    panels[0, 0].margins(x=0.12)
    label(panels[0, 0], f"{last.world_size:,} workers, {local_size} a node", "ms an iteration (predicted)", "")
    if several:
        panel = panels[0, 1]
        for name, colour in zip(list(last.gossip)[:MOST_LINES], [c for c in COLOURS if c != COLOURS[1]], strict=False):
            points = [(f.world_size, f.speedup(name)) for f in forecasts if name in f.gossip]
            panel.plot(*zip(*points, strict=True), "o-", color=colour, label=f"gossip, {name}")
        panel.axhline(1, color=COLOURS[1], label="All-Reduce")
        panel.set_xscale("log")
        panel.set_xticks([f.world_size for f in forecasts], [f"{f.world_size:,}" for f in forecasts], minor=False)
        panel.minorticks_off()
        panel.legend(frameon=False)
        label(panel, "The fastest topologies", "workers", "speed-up over All-Reduce")
    return save(figure, path)
