"""Draws a topology: one panel a round, workers on a circle, in worker order, coloured by node."""

import math
import textwrap
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from decent_core.report.plots import plt, save
from decent_core.report.round_picture import (
    INK,
    Points,
    draw_groups,
    draw_nodes,
    draw_peers,
    draw_workers,
    is_mutual,
    is_one_way,
)
from decent_core.report.round_text import count_round, counted
from decent_core.topology import GroupRound, PeerRound, Topology

MOST_PANELS = 12


def draw(topology: Topology, path: Path) -> None:
    """Write the picture of all rounds of the period (the first 12) as a PNG."""
    panels = min(topology.period, MOST_PANELS)
    rows = math.ceil(panels / 4)
    columns = math.ceil(panels / rows)
    legend = _legend(topology, panels, wrap=max(76, 48 * columns))
    size = (max(3.6 * columns, 5.6), 4.0 * rows + 0.75 + 0.17 * legend.count("\n"))
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1)
    for axis in axes.flat:
        axis.set_axis_off()
    for step, axis in enumerate(axes.flat[:panels]):
        _draw_round(axis, topology, step)
    figure.suptitle(_title(topology), fontsize=13, fontweight="bold", color=INK)
    figure.supxlabel(legend, fontsize=9.5, color=INK)
    save(figure, path, dpi=140)


def _title(topology: Topology) -> str:
    sizes = topology.layout.node_sizes
    layout = f", {len(sizes)} nodes of {sizes[0]}" if len(set(sizes.tolist())) == 1 else f", nodes of {sizes.tolist()}"
    repeats = "the same round every step" if topology.period == 1 else f"{topology.period:,} rounds, over and over"
    return f"{topology.name}: {counted(topology.world_size, 'worker')}{layout if sizes.max() > 1 else ''}\n{repeats}"


def _legend(topology: Topology, panels: int, wrap: int) -> str:
    rounds = [topology.round(step) for step in range(panels)]
    sizes = {groups.shape[1] for r in rounds if isinstance(r, GroupRound) for groups in r.groups}
    weights = [r.matrix() for r in rounds if isinstance(r, PeerRound)]
    parts = []
    if sizes - {1, 2}:
        parts.append("Square: the workers that it joins all take their mean.")
    if 2 in sizes:
        parts.append("Bold line: a pair takes its mean.")
    if any(is_mutual(w).any() for w in weights):
        parts.append("Grey line: each takes a part of the other's vector, more where it is thicker.")
    if any(is_one_way(w).any() for w in weights):
        parts.append("Arrow: its vector goes to the worker it points to.")
    if topology.layout.node_sizes.max() > 1:
        parts.append("Colour and arc: node.")
    if topology.period > panels:
        parts.append(f"Shown: the first {panels} of {topology.period:,} rounds.")
    return textwrap.fill(" ".join(parts), wrap)


def _draw_round(axis: Axes, topology: Topology, step: int) -> None:
    round_ = topology.round(step)
    places, angles = _places(topology)
    draw_nodes(axis, topology, angles)
    if isinstance(round_, GroupRound):
        draw_groups(axis, topology, round_, places)
    else:
        draw_peers(axis, round_, places)
    draw_workers(axis, topology, places)
    by_node = topology.layout.node_sizes.max() > 1
    edge = 1.42 if by_node else 1.2
    axis.set(xlim=(-edge, edge), ylim=(-edge - 0.22, edge), aspect="equal")
    axis.text(0, -edge - 0.05, count_round(round_), ha="center", va="top", fontsize=9.5, color=INK)
    if topology.period > 1:
        axis.set_title(f"round {step}", fontsize=11.5, fontweight="bold", color=INK)


def _places(topology: Topology) -> tuple[Points, Points]:
    """Where each worker stands, [N, 2], clockwise from the top with a gap between nodes; and its angle in degrees."""
    node = topology.node_of
    gap = 0.7 if topology.layout.node_sizes.max() > 1 and node[-1] > 0 else 0.0
    turn = (np.arange(topology.world_size) + gap * node) / (topology.world_size + gap * (node[-1] + 1))
    angles = 90 - 360 * turn
    radians = np.deg2rad(angles)
    return np.stack((np.cos(radians), np.sin(radians)), axis=1), angles
