"""Draws one round of a topology into a panel: nodes, groups, weighted exchanges and workers."""

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Polygon, Wedge
from numpy.typing import NDArray

from decent_core.report.round_text import degrees, shares, weight_in_words
from decent_core.topology import GroupRound, PeerRound, Topology

MOST_LABELS = 12
INK, GREY = "#37404a", "#7d8894"
ACROSS = ("#37404a", "#b0561a", "#1b7f79", "#7b3294", "#a6761d", "#c51b7d")  # groups that span nodes
Points = NDArray[np.float64]
Colour = str | tuple[float, float, float, float]


def draw_nodes(axis: Axes, topology: Topology, angles: Points) -> None:
    """An arc for each node, if any has several workers."""
    if topology.layout.node_sizes.max() == 1:
        return
    margin = min(9.0, 150 / topology.world_size)
    for node in range(topology.node_of[-1] + 1):
        own = angles[topology.node_of == node]
        wedge = Wedge(
            (0, 0), 1.2, own.min() - margin, own.max() + margin, width=0.4, color=_colour(node), alpha=0.2, lw=0
        )
        axis.add_patch(wedge)
        middle = np.deg2rad(own.mean())
        label = f"node {node}"
        axis.text(1.31 * np.cos(middle), 1.31 * np.sin(middle), label, ha="center", va="center", fontsize=8, color=INK,
                  rotation=own.mean() - 90 if np.sin(middle) > -0.01 else own.mean() + 90)  # fmt: skip


def draw_groups(axis: Axes, topology: Topology, round_: GroupRound, places: Points) -> None:
    """A line for each pair, a hub with spokes for each larger group."""
    across = 0  # groups so far that no node holds alone
    for members in (row for groups in round_.groups if groups.shape[1] > 1 for row in groups):
        corners = places[members]
        if len(members) == 2:
            axis.plot(*corners.T, color=INK, lw=2.6 * _thin(topology.world_size), zorder=2)
            continue
        if topology.layout.node_sizes.max() > 1 and len(set(topology.node_of[members])) == 1:
            colour: Colour = _colour(int(topology.node_of[members[0]]))
        else:
            colour = ACROSS[across % len(ACROSS)]
            across += 1
            axis.add_patch(Polygon(corners, closed=True, color=colour, alpha=0.12, lw=0, zorder=1))
        hub = _hub(corners, whole=len(members) == topology.world_size)
        for corner in corners:
            axis.plot(*np.stack((hub, corner)).T, color=colour, lw=1.7, zorder=2)
        axis.plot(*hub, marker="s", color=colour, ms=8, mec="white", mew=1, zorder=3)


def _hub(corners: Points, whole: bool) -> Points:
    """Where a group's lines meet: off the arc of a node, and off the centre, where other groups' lines may meet too."""
    hub = corners.mean(axis=0)
    distance = float(np.hypot(*hub))
    if distance < 0.2 and not whole:
        return hub + 0.3 * corners[: len(corners) // 2].mean(axis=0)
    return hub * min(1.0, 0.62 / max(distance, 1e-9))


def draw_peers(axis: Axes, round_: PeerRound, places: Points) -> None:
    """A line between two that take the same of each other, else an arrow to the worker that takes."""
    weights = round_.matrix()
    pairs = np.argwhere(np.triu(is_mutual(weights))).tolist()
    labelled = len(pairs) <= MOST_LABELS and (degrees(round_).max() == 1 or len(shares(round_)) > 1)
    for a, b in pairs:
        axis.plot(*places[[a, b]].T, color=GREY, lw=(0.9 + 2.2 * weights[a, b]) * _thin(len(weights)), zorder=2)
        if labelled:
            x, y = 0.62 * places[a] + 0.38 * places[b]  # lines often cross halfway
            axis.text(x, y, weight_in_words(weights[a, b]), fontsize=8.5, ha="center", va="center", color=INK, zorder=3,
                      bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"})  # fmt: skip
    for taker, giver in np.argwhere(is_one_way(weights)).tolist():
        _draw_arrow(axis, places[giver], places[taker], weights[taker, giver], len(weights))


def _draw_arrow(axis: Axes, giver: Points, taker: Points, weight: float, workers: int) -> None:
    width = (0.9 + 2.2 * weight) * _thin(workers)
    clockwise = giver[0] * taker[1] < giver[1] * taker[0]
    bend = 0.12 if workers <= 16 else 0.2 if clockwise else -0.2  # many workers: away from the circle they stand on
    dot = _dot(workers)
    arrow = FancyArrowPatch(
        tuple(giver), tuple(taker), arrowstyle="-|>", mutation_scale=(8 + 3 * width) * _thin(workers),
        connectionstyle=f"arc3,rad={bend}", shrinkA=0.45 * dot, shrinkB=0.55 * dot, color=GREY, lw=width, zorder=2,
    )  # fmt: skip
    axis.add_patch(arrow)


def is_mutual(weights: Points) -> NDArray[np.bool_]:
    """[N, N]: the two workers take the same weight of each other."""
    return np.isclose(weights, weights.T) & (weights > 0) & ~np.eye(len(weights), dtype=bool)


def is_one_way(weights: Points) -> NDArray[np.bool_]:
    """[N, N]: the worker of this row takes another weight than the other way round."""
    return (weights > 0) & ~np.isclose(weights, weights.T)


def draw_workers(axis: Axes, topology: Topology, places: Points) -> None:
    """A numbered dot for each worker, in the colour of its node."""
    by_node = topology.layout.node_sizes.max() > 1
    size = _dot(topology.world_size)
    for worker, (x, y) in enumerate(places):
        colour = _colour(int(topology.node_of[worker])) if by_node else "#4477aa"
        axis.plot(x, y, "o", ms=size, color=colour, mec="white", mew=1.2, zorder=4)
        axis.text(
            x,
            y,
            str(worker),
            ha="center",
            va="center_baseline",
            fontsize=0.5 * size,
            color="white",
            fontweight="bold",
            zorder=5,
        )


def _dot(workers: int) -> float:
    """A worker's diameter in points."""
    return float(np.clip(390 / workers, 6, 21))


def _thin(workers: int) -> float:
    """What lines are thinned by so that many of them can be told apart."""
    return float(np.clip(20 / workers, 0.25, 1))


def _colour(node: int) -> Colour:
    return colormaps["tab10"](node % 10)
