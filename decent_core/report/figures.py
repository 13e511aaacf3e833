"""Curves of training runs as PNG, from records."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from decent_core.report.compare import Row
from decent_core.report.plots import plt, save

# Okabe and Ito's palette: distinct for colour-blind readers; yellow is left out, it vanishes on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
HIDDEN_START = 0.1  # of the training: the fall from the initial loss would flatten everything else
AXES = (("step", "training step"), ("seconds", "training seconds"))


def draw_curves(rows: Sequence[Row], path: Path, title: str, metric_label: str) -> Path:
    """The primary metric against steps and against training seconds, a line a row; seeds as their mean and range.

    A colour is how workers communicate, a dash pattern which optimizer they use. Rows without a finished run: no line.
    """
    rows = [row for row in rows if row.runs and all(run.curve for run in row.runs)]
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), sharey=True, layout="constrained")
    colours = _assign(((row.first.method, row.first.topology) for row in rows), COLOURS)
    dashes = _assign((_optimizer(row) for row in rows), DASHES)
    for panel, (axis, label) in zip(panels, AXES, strict=True):
        for row in rows:
            x, values = _curve(row, axis)
            look = {
                "color": colours[row.first.method, row.first.topology],
                "linestyle": dashes[_optimizer(row)],
            }
            panel.plot(x, values.mean(axis=0), label=row.label, linewidth=1.8, **look)
            if len(values) > 1:
                panel.fill_between(x, values.min(axis=0), values.max(axis=0), color=look["color"], alpha=0.15, lw=0)
        panel.set_xlabel(label)
        panel.set_xlim(left=0)
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(metric_label)
    _zoom(panels[0], rows)
    figure.suptitle(title, fontsize=11)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, handlelength=3.5)
    return save(figure, path)


def _curve(row: Row, axis: str) -> tuple[np.ndarray, np.ndarray]:
    """x [points] (mean over runs) and values [runs, points] of the row's runs, at the steps that all of them have."""
    metric = row.metric
    by_step = [{point["step"]: point for point in run.curve} for run in row.runs]
    steps = sorted(set.intersection(*(set(points) for points in by_step)))
    x = np.mean([[points[step][axis] for step in steps] for points in by_step], axis=0)
    values = [[points[step]["values"][metric] for step in steps] for points in by_step]
    return x, np.array(values, dtype=float)


def _optimizer(row: Row) -> str:
    """The optimizer with all its settings: SGD with and without momentum are two."""
    return json.dumps(row.first.config["optimizer"], sort_keys=True)


def _zoom(panel: Any, rows: Sequence[Row]) -> None:
    """Fit the value axis to what comes after the start of the training."""
    shown = []
    for row in rows:
        steps, values = _curve(row, "step")
        shown.append(values[:, steps >= HIDDEN_START * steps[-1]])
    if shown:
        everything = np.concatenate([values.ravel() for values in shown])
        low, high = np.nanmin(everything), np.nanmax(everything)
        margin = 0.04 * (high - low) or 1.0
        panel.set_ylim(low - margin, high + margin)


def _assign(keys: Any, looks: Sequence[Any]) -> dict[Any, Any]:
    """A look for each different key in order of appearance; they repeat when there are more keys than looks."""
    return {key: looks[index % len(looks)] for index, key in enumerate(dict.fromkeys(keys))}
