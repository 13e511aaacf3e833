"""The figure of a table that compares learning rates: the final metric against them, a line a method, seeds as a band.

If no method has rates to choose from: a row a method, its mean and interval, and its seeds.
"""

from pathlib import Path
from typing import Any

import numpy as np

from decent_core.report.figures import COLOURS, DASHES
from decent_core.report.learning_rates import RateComparison, TunedRow
from decent_core.report.notes import metric_label
from decent_core.report.plots import label, new_figure, save

MEANS = "dot: mean over seeds; bar: its 95 % interval; strokes: the seeds"
#: one more than in other figures, as [L] compares nine methods; black is the baseline's
LINES = (*COLOURS[:-1], "#6A3D9A")
MARKERS = "osD^vPX*h"
SHOWN = 0.9  # of the values, the better ones; the rest would flatten them
FAR = 1.5  # times that range: an axis that ends with all values, not with the better ones


def draw(table: RateComparison, path: Path) -> Path:
    """Write the figure as PNG."""
    return save(_against_rate(table) if table.tunes else _by_method(table), path)


def _by_method(table: RateComparison) -> Any:
    """Panels one below the other; better values are to the right."""
    panels = table.settings
    rows = sum(len(lines) for lines in panels.values())
    figure, axes = new_figure(len(panels), 1, (7.7, 1.4 * len(panels) + 0.3 * rows))
    for axis, (title, lines) in zip(axes.flat, panels.items(), strict=True):
        label(axis, title, f"final {metric_label(table.metric)} (better to the right)", "")
        axis.set_yticks(range(len(lines)), [line.label if line.best else f"{line.label} (not run)" for line in lines])
        axis.set_ylim(len(lines) - 0.5, -0.5)
        for height, line in enumerate(lines):
            colour = _look(0, line.label == table.baseline)["color"]
            _draw_mean(axis, height, line, table.metric, colour)
        if table.lower_is_better:
            axis.invert_xaxis()
    figure.suptitle(f"{table.file.title}\n{MEANS}", fontsize=11)
    return figure


def _draw_mean(axis: Any, height: int, line: TunedRow, metric: str, colour: str) -> None:
    if line.best is None or (found := line.best.interval(metric)) is None:
        return
    axis.errorbar(found.mean, height, xerr=found.half_width, fmt="o", color=colour, capsize=4, markersize=6)
    seeds = line.best.by_seed(metric).tolist()
    axis.plot(seeds, [height] * len(seeds), "|", color=colour, markersize=14, alpha=0.6)


def _against_rate(table: RateComparison) -> Any:
    """A panel for each setting, two beside each other; all with the same scale of values."""
    panels = table.settings
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(rows, columns, (5.2 * columns + (2.5 if columns == 1 else 0), 3.6 * rows + 1.2))
    for axis, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for number, line in enumerate(lines):
            _draw_line(axis, line, table.metric, _look(number, line.label == table.baseline))
        label(axis, title, "learning rate", f"final {metric_label(table.metric)}")
        axis.set_xscale("log")
        _ticks(axis, lines)
        _zoom(axis, lines, table)
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    figure.suptitle(table.file.title, fontsize=11)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, handlelength=3.0)
    return figure


def _look(number: int, is_baseline: bool) -> dict[str, Any]:
    if is_baseline:
        return {"color": COLOURS[-1], "linestyle": "-", "marker": MARKERS[number % len(MARKERS)], "linewidth": 2.4}
    return {
        "color": LINES[number % len(LINES)],
        "linestyle": DASHES[number // len(LINES) % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
        "linewidth": 1.6,
    }


def _draw_line(axis: Any, line: TunedRow, metric: str, look: dict[str, Any]) -> None:
    """A point for each rate at which a run has finished; the band is the range over seeds."""
    points = {rate: row.by_seed(metric).to_numpy() for rate, row in line.by_rate.items() if row.runs}
    rates = list(points)
    axis.plot(rates, [values.mean() for values in points.values()], label=line.label, markersize=5, **look)
    if any(len(values) > 1 for values in points.values()):
        low, high = ([end(values) for values in points.values()] for end in (np.min, np.max))
        axis.fill_between(rates, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _ticks(axis: Any, lines: list[TunedRow]) -> None:
    rates = sorted({rate for line in lines for rate in line.by_rate})
    axis.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axis.set_xticks([], minor=True)


def _zoom(axis: Any, lines: list[TunedRow], table: RateComparison) -> None:
    """Fit the values to the better ones, if the others are far off; what lies beyond is in the table."""
    values = [row.interval(table.metric) for line in lines for row in line.by_rate.values()]
    means = np.array([found.mean for found in values if found is not None])
    if len(means) < 2:
        return
    good, bad, worst = means.min(), np.quantile(means, SHOWN), means.max()
    if not table.lower_is_better:
        good, bad, worst = means.max(), np.quantile(means, 1 - SHOWN), means.min()
    if abs(worst - good) < FAR * abs(bad - good):
        bad = worst
    margin = 0.08 * (bad - good)
    low, high = sorted((good - margin, bad + margin))
    axis.set_ylim(low, high)
