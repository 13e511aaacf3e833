"""[L]'s figure 2 from training runs, and tables of the bias by learning rate, momentum and topology."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas
from rich.console import Console

from decent_core.config.load import load
from decent_core.config.run_config import RunConfig
from decent_core.records.provenance import git_state, versions
from decent_core.records.record import read
from decent_core.report.bias_figure import Curve, draw_distances
from decent_core.report.notes import commit_name
from decent_core.system.files import write_atomically
from decent_core.tables.plan import plan
from decent_core.tables.planned_run import PlannedRun
from decent_core.tables.pool import run_all
from tasks.regression.bias import WORKERS, bias_rows, ratio_rows
from tasks.regression.problem import draw

#: the rows of the figure as [L] names them, in the order of the legend
NAMES = {
    "awc_dmsgd": "AWC-DmSGD",
    "dmsgd": "DmSGD",
    "da": "DA-DmSGD",
    "qg": "QG-DmSGD",
    "decentlam": "DecentLaM",
    "dsgd": "DSGD",
    "d2": "D2-DmSGD",
    "pmsgd": "PmSGD",
}


@dataclass(frozen=True)
class Options:
    """Where the runs and the results go."""

    runs: str = "runs/reproduce"
    results: str = "results/local"
    jobs: int = 1  # training runs at once


def run(given: Options) -> int:
    """Run what is missing, write and show the figure and both tables; returns the exit status."""
    console, results = Console(), Path(given.results)
    rows = [row for row in plan("l/figure2", "tiny", 1, Path(given.runs)).runs if _experiment(row.name) in NAMES]
    if failures := run_all(rows, given.jobs):
        console.print(f"failed: {', '.join(row.name for row in failures)}; see {failures[0].log}")
        return 1
    _draw(rows, results)
    world_size = _config().world_size
    table = pandas.DataFrame(bias_rows(draw(_config().task, WORKERS)))
    ratios = pandas.DataFrame(ratio_rows(draw(_config().task, world_size), world_size))
    write_atomically(results / "regression_bias.csv", table.to_csv(index=False, lineterminator="\n"))
    text = markdown(table, ratios, world_size, origin())
    write_atomically(results / "regression_bias.md", text)
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    written = "regression_distance.png, regression_bias.csv, regression_bias.md"
    console.print(f"Written: {results}/{written}", soft_wrap=True, highlight=False)
    return 0


def _config() -> RunConfig:
    """The problem, of which all rows of the figure are runs."""
    return load(["experiment=l/figure2/decentlam", "scale=tiny"])


def _draw(rows: Sequence[PlannedRun], results: Path) -> None:
    config = _config()
    curves = {_experiment(row.name): _curve(row.record) for row in rows}
    title = (
        f"Least squares, {config.world_size} workers on a ring, full gradients, learning rate {config.optimizer.lr:g}"
    )
    draw_distances({NAMES[name]: curves[name] for name in NAMES}, results / "regression_distance.png", title)


def _experiment(row: str) -> str:
    """`l/figure2/dsgd-s1` -> `dsgd`."""
    return row.removeprefix("l/figure2/").rpartition("-s")[0]


def _curve(path: Path) -> Curve:
    """Steps, and the mean over workers of ||x_i - x*||^2 = ||mean - x*||^2 + the consensus distance squared."""
    points = read(path).curve
    values = [point["values"] for point in points]
    distances = [value["squared_distance"] + value["consensus_distance"] ** 2 for value in values]
    return [point["step"] for point in points], distances


def origin() -> str:
    """What computes the tables."""
    return f"Computed with commit {commit_name(*git_state())}, torch {versions().get('torch', '?')}."


def markdown(table: pandas.DataFrame, ratios: pandas.DataFrame, world_size: int, origin: str) -> str:
    """Both tables with what a reader must know."""
    settled = table[np.isfinite(table["measured"]) & (table["fixed_point"] > 0)]
    off = (settled["measured"] / settled["fixed_point"] - 1).abs().max()
    labels = table["method"] + table["beta"].map(lambda beta: f" β={beta:g}" if beta else "")
    named = table.assign(
        method=labels,
        lr=table["lr"].map("{:g}".format),
        rho=table["rho"].map("{:.4f}".format),
        measured=table["measured"].map(lambda value: f"{value:.2e}" if math.isfinite(value) else "diverges"),
    )
    keys = ["topology", "rho", "lr"]
    shown = named.pivot(index=keys, columns="method", values="measured")[list(dict.fromkeys(labels))]
    in_order = pandas.MultiIndex.from_frame(named[keys].drop_duplicates())
    lines = [
        "**Squared bias (1/N) Σ ‖x_i − x*‖² where training comes to rest**",
        "",
        *_table(shown.loc[in_order].reset_index()),
        "",
        f"- Least squares with {WORKERS} workers and full gradients, trained until x rests. The solutions of the",
        f"  fixed-point equations agree with what is measured to {off:.0e} of it; 0 stands for less than rounding.",
        "- A method that diverges has a fixed point all the same, but does not reach it; scripts.train refuses it.",
        "- regression_bias.csv has both, and [L]'s bound, η²b²/((1−β)²(1−ρ)²) where momentum inflates the bias.",
        "",
        f"**Squared bias over DSGD's, ring of {world_size}, β = 0.9: momentum drives DmSGD's to 1/(1−β)² = 100 times**",
        "",
        *_table(ratios.map("{:.4g}".format)),
        "",
        f"- {origin}",
    ]
    return "\n".join(lines) + "\n"


def _table(frame: pandas.DataFrame) -> list[str]:
    cells = [list(frame.columns), ["---"] * len(frame.columns), *frame.to_numpy().tolist()]
    return [f"| {' | '.join(map(str, row))} |" for row in cells]
