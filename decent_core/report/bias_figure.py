"""Draws the distance to the optimum against the iteration, a line a method, each named at its end."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from decent_core.report.plots import plt, save

Curve = tuple[list[int], list[float]]  # steps, squared distances

# momentum that inflates the bias: warm; no inflated bias: cold; no bias: grey
COLOURS = ("#B2182B", "#D55E00", "#E69F00", "#0072B2", "#08306B", "#56B4E9", "#777777", "#000000")
READING = "Warm: momentum inflates the bias.  Blue: no more bias than without momentum.  Grey and black: no bias."
LOWEST = 1e-7
GAP = 0.045  # of the height, between names


def draw_distances(curves: Mapping[str, Curve], path: Path, title: str) -> None:
    """Write the PNG; curves in the order of their colours."""
    figure, axis = plt.subplots(figsize=(8.6, 5.2), layout="constrained")
    ends = {}
    for (name, (steps, distances)), colour in zip(curves.items(), COLOURS, strict=True):
        kept = [(step, value) for step, value in zip(steps, distances, strict=True) if value >= LOWEST]
        dashes = (0, (4, 3)) if name == "DSGD" else "-"  # it ends on others
        axis.plot(*zip(*kept, strict=True), color=colour, lw=2, linestyle=dashes)
        ends[name] = (kept[-1], colour)
    last = max(curve[0][-1] for curve in curves.values())
    axis.set(yscale="log", xlim=(0, last), ylim=(LOWEST, None), xlabel="iteration")
    axis.set_ylabel("squared distance to the optimum, mean over workers")
    figure.suptitle("How far from the optimum training comes to rest", fontsize=13, fontweight="bold")
    axis.set_title(f"{title}\n{READING}", fontsize=9.5, loc="left")
    axis.grid(alpha=0.25, lw=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    _name(axis, ends, last)
    save(figure, path)


def _name(axis: plt.Axes, ends: Mapping[str, tuple[tuple[float, float], str]], last: float) -> None:
    """Names beside the right edge, as high as their lines end and apart from each other, from the bottom up."""
    low, high = np.log(axis.get_ylim())
    height = -GAP
    for name, ((_, value), colour) in sorted(ends.items(), key=lambda item: item[1][0][1]):
        height = max((np.log(value) - low) / (high - low), height + GAP)
        at_rest = value > 2 * LOWEST
        text = f"{name}  {value:.1e}" if at_rest else f"{name}  no bias"
        axis.text(1.02, height, text, transform=axis.transAxes, color=colour, va="center", fontsize=9.5)
