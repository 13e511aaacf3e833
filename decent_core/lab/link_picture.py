"""The picture of `scripts.bench network`: time of a step against the rate of the links, measured and predicted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from decent_core.lab.namespaces import megabits
from decent_core.lab.record import describe
from decent_core.report.figures import COLOURS
from decent_core.report.plots import GREY, label, new_figure, save

PANELS = {
    "aer": "AER",
    "one_peer_hypercube": "one-peer exponential",
    "complete": "complete",
}
TICKS = (10, 20, 50, 100, 200, 500, 1000, 2000)


def draw(
    given: Mapping[str, Any],
    measured: Mapping[tuple[str, str, str], Sequence[float]],
    predicted: Mapping[tuple[str, str, str], float],
    compute: float,
    path: Path,
) -> Path:
    """A panel a topology, All-Reduce in each. Measured medians as points with their range, predictions as lines."""
    rates = given["rates"]
    figure, panels = new_figure(1, len(PANELS), (11.0, 4.4))
    x = [megabits(rate) for rate in rates]
    every = [1000 * value for runs in measured.values() for value in runs]
    for panel, (topology, title) in zip(panels[0], PANELS.items(), strict=True):
        looks = {
            ("allreduce", "complete"): ("All-Reduce (torch DDP)", COLOURS[1], "s"),
            ("decent-dp", topology): ("gossip, reference decent-dp", COLOURS[6], "x"),
            ("awc", topology): ("gossip, this engine", COLOURS[0], "o"),
        }
        for key, (name, colour, marker) in looks.items():
            runs = [1000 * np.array(measured[(rate, *key)]) for rate in rates]
            medians = np.array([np.median(run) for run in runs])
            spread = [medians - [run.min() for run in runs], [run.max() for run in runs] - medians]
            panel.errorbar(x, medians, spread, fmt=marker, color=colour, capsize=3, label=name, markersize=6)
            panel.plot(x, [1000 * predicted[(rate, *key)] for rate in rates], color=colour, linewidth=1.2, alpha=0.7)
        panel.plot([], [], color=GREY, linewidth=1.2, label="line: predicted")
        panel.axhline(1000 * compute, color=GREY, linestyle=":", linewidth=1)
        panel.text(x[0], 1000 * compute * 0.96, "computing alone", color=GREY, va="top", fontsize=9)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_ylim(1000 * compute * 0.75, max(every) * 1.15)
        panel.set_xticks(x, list(rates), rotation=30)
        panel.minorticks_off()
        ticks = [tick for tick in TICKS if 1000 * compute * 0.75 <= tick <= max(every) * 1.15]
        panel.set_yticks(ticks, [str(tick) for tick in ticks])
        label(panel, f"gossip over {title}", "rate of a node's link", "ms a step" if topology == "aer" else "")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    load = describe(given["load"])
    text = f"Step time against link speed: {given['workers']} workers on {given['nodes']} nodes, {load}"
    figure.suptitle(text, fontsize=13, weight="bold")
    return save(figure, path)
