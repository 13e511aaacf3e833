"""The picture of scripts.advise: time of an iteration by topology, and the speed-up over the number of workers."""

from collections.abc import Sequence
from pathlib import Path

from decent_core.report.figures import COLOURS
from decent_core.report.plots import GREY, label, new_figure, save
from decent_core.runtime.forecast import Outlook

MOST_LINES = 5


def draw(outlooks: Sequence[Outlook], local_size: int, path: Path) -> Path:
    """Bars for the last world; lines over all worlds, if there are several, for its fastest topologies."""
    last = outlooks[-1]
    several = len(outlooks) > 1
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
            points = [(o.world_size, o.speedup(name)) for o in outlooks if name in o.gossip]
            panel.plot(*zip(*points, strict=True), "o-", color=colour, label=f"gossip, {name}")
        panel.axhline(1, color=COLOURS[1], label="All-Reduce")
        panel.set_xscale("log")
        panel.set_xticks([o.world_size for o in outlooks], [f"{o.world_size:,}" for o in outlooks], minor=False)
        panel.minorticks_off()
        panel.legend(frameon=False)
        label(panel, "The fastest topologies", "workers", "speed-up over All-Reduce")
    return save(figure, path)
