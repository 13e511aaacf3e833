"""The runtime model of [P]: how long an iteration takes with All-Reduce and with gossip, and what that depends on.

The panels are those of [P]'s Figure 4 as its text describes them, for 32 workers and 7 buckets. Times are T N / b as
in `python -m scripts.runtime`; lines without points are closed forms, points are simulated.
"""

from pathlib import Path
from typing import Any

import numpy as np

from decent_core import topology as topologies
from decent_core.report.figures import COLOURS
from decent_core.report.plots import GREY, label, new_figure, save
from decent_core.runtime import (
    Noise,
    allreduce_time,
    best_speedup,
    constant,
    gossip_time,
    paper_workload,
    simulate_allreduce,
    simulate_gossip,
)

WORLD_SIZE, LOCAL_SIZE, BUCKETS, UPDATE, VARIANCE = 32, 4, 7, 0.364, 0.00695
WORK = paper_workload(BUCKETS, UPDATE, WORLD_SIZE)
KNEE = WORK.compute
#: (gamma N, omega)
CASES = ((1, 1.0), (4, 1.0), (4, 0.6))
TOPOLOGIES = {"complete": "complete", "aer": "AER", "one_peer_hypercube": "one-peer"}


def draw(path: Path, iterations: int) -> Path:
    """Write the picture."""
    figure, panels = new_figure(2, 2, (11, 8.4))
    _times(panels[0, 0])
    _best(panels[0, 1])
    _omega(panels[1, 0])
    _variance(panels[1, 1], iterations)
    figure.suptitle("Gossip wins where All-Reduce waits for the network", fontsize=14, weight="bold")
    return save(figure, path)


def _times(panel: Any) -> None:
    gamma = np.linspace(0, 8, 161)
    panel.plot(gamma, [allreduce_time(WORK, g) / BUCKETS for g in gamma], color=COLOURS[1])
    panel.plot(gamma, [gossip_time(WORK, g) / BUCKETS for g in gamma], color=COLOURS[0])
    panel.plot(gamma, [gossip_time(WORK, 0.6 * g) / BUCKETS for g in gamma], color=COLOURS[0], linestyle=(0, (5, 2)))
    panel.axhline(KNEE, color=GREY, linewidth=0.8, linestyle=":")
    panel.text(7.9, KNEE - 0.15, "computing alone", color=GREY, ha="right", va="top")
    panel.text(4.7, 7.1, "All-Reduce", color=COLOURS[1], ha="right")
    panel.text(6.45, 5.95, "gossip, $\\omega$ = 1", color=COLOURS[0])
    panel.text(7.2, 4.75, "gossip, $\\omega$ = 0.6", color=COLOURS[0], ha="right")
    label(panel, "Time of an iteration", "All-Reduce of one bucket, $\\gamma N$", "time, in forward passes of a bucket")
    panel.set_ylim(0, 10)


def _best(panel: Any) -> None:
    gamma = np.linspace(0, 8, 161)
    panel.plot(gamma, [best_speedup(WORK, g) for g in gamma], color=COLOURS[2])
    panel.axvline(2, color=GREY, linewidth=0.8, linestyle=":")
    panel.text(
        2.1, 2.75, "beyond $\\gamma N$ = 2, bucket after bucket\nwaits for the one before it", color=GREY, va="top"
    )
    label(
        panel,
        "Best speed-up: gossip hidden entirely",
        "All-Reduce of one bucket, $\\gamma N$",
        "speed-up over All-Reduce",
    )
    panel.set_ylim(0.9, 3)


def _omega(panel: Any) -> None:
    omega = np.linspace(0.05, 1, 191)
    for gamma, colour in ((1, COLOURS[4]), (2, COLOURS[5]), (4, COLOURS[0]), (8, COLOURS[3])):
        speedups = [allreduce_time(WORK, gamma) / gossip_time(WORK, o * gamma) for o in omega]
        panel.plot(omega, speedups, color=colour)
        below = gamma == 1
        panel.text(
            0.06,
            speedups[0] + (-0.03 if below else 0.03),
            f"$\\gamma N$ = {gamma}",
            color=colour,
            va="top" if below else "bottom",
        )
        if gamma > KNEE:
            panel.plot(KNEE / gamma, speedups[0], "o", color=colour)
    panel.text(0.84, 1.78, "left of a point,\nall is hidden", color=GREY)
    label(
        panel,
        "Speed-up by the cost of a gossip round",
        "gossip round / All-Reduce, $\\omega$",
        "speed-up over All-Reduce",
    )
    panel.set_ylim(0.85, 3.1)
    panel.set_xlim(0.03, 1.03)


def _variance(panel: Any, iterations: int) -> None:
    variances = np.linspace(0, 0.02, 9)
    labels = (
        (1.215, "$\\gamma N$ = 1, $\\omega$ = 1"),
        (1.49, "$\\gamma N$ = 4, $\\omega$ = 1"),
        (1.765, "$\\gamma N$ = 4, $\\omega$ = 0.6"),
    )
    for (gamma, omega), (height, case) in zip(CASES, labels, strict=True):
        for (name, shown), colour, mark in zip(
            TOPOLOGIES.items(), (COLOURS[1], COLOURS[2], COLOURS[0]), "s^o", strict=True
        ):
            speedups = [_simulated(name, gamma, omega, float(v), iterations) for v in variances]
            panel.plot(
                variances * 1e3,
                speedups,
                color=colour,
                marker=mark,
                markersize=4,
                linewidth=1,
                label=shown if gamma == 1 else None,
            )
        panel.text(0.1, height, case, color=GREY)
    panel.axvline(VARIANCE * 1e3, color=GREY, linewidth=0.8, linestyle=":")
    panel.text(VARIANCE * 1e3 + 0.2, 1.01, "as measured in [P]", color=GREY)
    panel.legend(
        frameon=False,
        loc="center right",
        bbox_to_anchor=(1, 0.36),
        title="gossip over (nearly equal)",
        alignment="left",
        ncols=3,
        columnspacing=1,
        handletextpad=0.4,
    )
    label(
        panel,
        "Speed-up with noisy computing times",
        "variance of computing times, $\\sigma^2$ / 10$^{-3}$",
        "speed-up over All-Reduce",
    )
    panel.set_ylim(1, 1.9)


def _simulated(name: str, gamma: float, omega: float, variance: float, iterations: int) -> float:
    noise = Noise(variance)
    built = topologies.build(name, WORLD_SIZE, LOCAL_SIZE)
    gossip = simulate_gossip(WORK, built, constant(omega * gamma), noise, iterations)
    return simulate_allreduce(WORK, gamma, WORLD_SIZE, noise, iterations) / gossip
