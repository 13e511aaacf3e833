"""How far from the optimum gossip methods come to rest: [L] figure 2, and the bias by rate, momentum and topology.

python -m scripts.bias

Runs the experiments of the regression task that have not been run, then writes regression_distance.png,
regression_bias.csv and regression_bias.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas
from rich.console import Console

from decent_core import topology
from decent_core.config.command_line import options, run_main
from decent_core.config.load import load
from decent_core.methods import METHODS
from decent_core.records.provenance import git_state, versions
from decent_core.records.record import read
from decent_core.report.bias_figure import Curve, draw_distances
from decent_core.report.notes import commit_name
from decent_core.system.files import write_atomically
from decent_core.tables.pool import run_children
from decent_core.topology import Topology, analysis
from scripts import reproduce
from tasks.regression.problem import Problem, coefficients, draw
from tasks.regression.rows import RowWorkers

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
#: the rows of the table: name, method, momentum
METHODS_COMPARED = (
    ("DSGD", "atc", 0.0),
    ("DmSGD", "atc", 0.5),
    ("DmSGD", "atc", 0.9),
    ("AWC-DmSGD", "awc", 0.9),
    ("DA-DmSGD", "da", 0.9),
    ("QG-DmSGD", "qg", 0.9),
    ("DecentLaM", "decentlam", 0.9),
)
TOPOLOGIES = ("ring", "torus", "static_exp", "complete")
WORKERS = 16
RATES = (2e-3, 1e-3, 5e-4)
RATIO_RATES = (1e-3, 1e-4, 1e-5, 1e-6)
TOLERANCE, LIMIT = 1e-7, 20_000
RELATIVE_ROUNDING = 1e-12  # squared distances below it, relative to ||x*||^2, are taken for zero


@dataclass(frozen=True)
class Options:
    """Where runs and results go."""

    runs: str = "runs/reproduce"
    results: str = "results/local"
    jobs: int = 1  # training runs at once


def main(arguments: list[str]) -> int:
    """Write and show figure and tables."""
    chosen = options(Options, arguments, __doc__ or "")
    console, results = Console(), Path(chosen.results)
    wanted = reproduce.Options(experiments="l/figure2/*", runs=chosen.runs)
    rows = [row for row in reproduce.plan(wanted) if _experiment(row.name) in NAMES]
    if failures := run_children(rows, chosen.jobs):
        console.print(f"failed: {', '.join(row.name for row in failures)}; see {failures[0].log}")
        return 1
    curves = {_experiment(row.name): _curve(row.record) for row in rows}
    config = load(["experiment=l/figure2/decentlam", "scale=tiny"])
    title = (
        f"Least squares, {config.world_size} workers on a ring, full gradients, learning rate {config.optimizer.lr:g}"
    )
    draw_distances({NAMES[name]: curves[name] for name in NAMES}, results / "regression_distance.png", title)
    table = pandas.DataFrame(bias_rows(draw(config.task, WORKERS)))
    ratios = pandas.DataFrame(ratio_rows(draw(config.task, config.world_size), config.world_size))
    write_atomically(results / "regression_bias.csv", table.to_csv(index=False, lineterminator="\n"))
    text = _markdown(table, ratios, config.world_size, _origin())
    write_atomically(results / "regression_bias.md", text)
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    written = "regression_distance.png, regression_bias.csv, regression_bias.md"
    console.print(f"Written: {results}/{written}", soft_wrap=True, highlight=False)
    return 0


def bias_rows(problem: Problem) -> Iterator[dict]:
    """A row for each topology, rate and method: the squared bias measured, that of the fixed point, and the bound.

    The bound is [L]'s order lr^2 b^2 / ((1 - beta)^2 (1 - rho)^2), with beta = 0 for those that do not suffer from it.
    """
    for name in TOPOLOGIES:
        graph = topology.build(name, WORKERS)
        rho = analysis.second_eigenvalue(graph.matrix(0))
        for lr in RATES:
            for label, method, beta in METHODS_COMPARED:
                measured, fixed = _measure(problem, graph, method, lr, beta)
                inflated = 1.0 if method in ("decentlam", "qg") else 1 - beta
                bound = lr**2 * problem.disagreement / (inflated * (1 - rho)) ** 2
                yield {
                    "topology": name,
                    "rho": rho,
                    "lr": lr,
                    "method": label,
                    "beta": beta,
                    "measured": measured,
                    "fixed_point": fixed,
                    "bound": bound,
                }


def ratio_rows(problem: Problem, world_size: int, beta: float = 0.9) -> Iterator[dict]:
    """Squared biases over DSGD's on the ring as the rate goes to 0, from the fixed points."""
    W = topology.build("ring", world_size).matrix(0)
    for lr in RATIO_RATES:
        bias = {
            label: problem.bias(problem.fixed_point(W, coefficients(method, W, momentum), lr))
            for label, method, momentum in METHODS_COMPARED
            if momentum in (0, beta)
        }
        yield {"lr": lr, **{label: value / bias["DSGD"] for label, value in bias.items()}}


def _measure(problem: Problem, graph: Topology, method: str, lr: float, beta: float) -> tuple[float, float]:
    """The squared bias where training comes to rest, and that of the fixed point."""
    x = RowWorkers(problem, METHODS[method](), graph, lr, beta).settle(TOLERANCE, LIMIT)
    W = graph.matrix(0)
    fixed = problem.fixed_point(W, coefficients(method, W, beta), lr)
    smallest = RELATIVE_ROUNDING * float((problem.optimum**2).sum())
    measured, exact = (value if value > smallest else 0.0 for value in (problem.bias(x), problem.bias(fixed)))
    return measured, exact


def _experiment(row: str) -> str:
    """`l/figure2/dsgd-s1` -> `dsgd`."""
    return row.removeprefix("l/figure2/").rpartition("-s")[0]


def _curve(path: Path) -> Curve:
    """Steps, and the mean over workers of ||x_i - x*||^2 = ||mean - x*||^2 + the consensus distance squared."""
    points = read(path).curve
    values = [point["values"] for point in points]
    distances = [value["squared_distance"] + value["consensus_distance"] ** 2 for value in values]
    return [point["step"] for point in points], distances


def _origin() -> str:
    """What computes the tables."""
    return f"Computed with commit {commit_name(*git_state())}, torch {versions().get('torch', '?')}."


def _markdown(table: pandas.DataFrame, ratios: pandas.DataFrame, world_size: int, origin: str) -> str:
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


if __name__ == "__main__":
    run_main(main)
