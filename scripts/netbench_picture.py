"""The picture of scripts.netbench: time of a step against the rate of the links, measured and predicted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from scripts.figures import COLOURS
from scripts.plots import GREY, label, new_figure, save

UNITS = {"k": 1e-3, "m": 1.0, "g": 1e3}
LOOKS = {
    ("allreduce", "complete"): ("All-Reduce (DDP)", COLOURS[1]),
    ("awc", "complete"): ("gossip, complete", COLOURS[3]),
    ("awc", "aer"): ("gossip, AER", COLOURS[2]),
    ("awc", "one_peer_exp"): ("gossip, one-peer exponential", COLOURS[0]),
}


def draw(
    rates: Sequence[str],
    measured: Mapping[tuple[str, str, str], Sequence[float]],
    predicted: Mapping[tuple[str, str, str], float],
    compute: float,
    path: Path,
) -> Path:
    """Measured medians as points with their range, predictions as lines; seconds in, milliseconds drawn."""
    figure, panels = new_figure(1, 1, (7.6, 5.0))
    panel = panels[0, 0]
    x = [megabits(rate) for rate in rates]
    for (method, topology), (name, colour) in LOOKS.items():
        runs = [1000 * np.array(measured[rate, method, topology]) for rate in rates]
        medians = np.array([np.median(run) for run in runs])
        spread = [medians - [run.min() for run in runs], [run.max() for run in runs] - medians]
        panel.errorbar(x, medians, spread, fmt="o", color=colour, capsize=3, label=name)
        panel.plot(x, [1000 * predicted[rate, method, topology] for rate in rates], color=colour, linewidth=1.4)
    panel.axhline(1000 * compute, color=GREY, linestyle=":", linewidth=1)
    panel.text(x[0], 1000 * compute * 0.96, "computing alone", color=GREY, va="top")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(x, list(rates))
    panel.minorticks_off()
    ticks = [50, 100, 200, 500, 1000, 2000]
    panel.set_yticks(ticks, [str(tick) for tick in ticks])
    panel.legend(frameon=False)
    label(panel, "Points: measured. Lines: predicted.", "rate of a node's link", "ms a step")
    figure.suptitle("Step time against link speed", fontsize=13, weight="bold")
    return save(figure, path)


def megabits(rate: str) -> float:
    """100mbit -> 100, 1gbit -> 1000."""
    return float(rate[:-4]) * UNITS[rate[-4]]
