"""How far from the optimum gossip methods converge: the bias by learning rate, momentum and topology."""

from collections.abc import Iterator

from decent_core import topology
from decent_core.methods import METHODS
from decent_core.topology import Topology, analysis
from tasks.regression.problem import Problem, coefficients
from tasks.regression.rows import RowWorkers

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
LEARNING_RATES = (2e-3, 1e-3, 5e-4)
RATIO_LEARNING_RATES = (1e-3, 1e-4, 1e-5, 1e-6)
TOLERANCE, LIMIT = 1e-7, 20_000
RELATIVE_ROUNDING = 1e-12  # squared distances below it, relative to ||x*||^2, are taken for zero


def bias_rows(problem: Problem) -> Iterator[dict]:
    """A row for each topology, rate and method: the squared bias measured, that of the fixed point, and the bound.

    The bound is [L]'s order lr^2 b^2 / ((1 - beta)^2 (1 - rho)^2), with beta = 0 for those that do not suffer from it.
    """
    for name in TOPOLOGIES:
        built = topology.build(name, WORKERS)
        rho = analysis.second_eigenvalue(built.matrix(0))
        for lr in LEARNING_RATES:
            for label, method, beta in METHODS_COMPARED:
                measured, fixed = _measure(problem, built, method, lr, beta)
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
    for lr in RATIO_LEARNING_RATES:
        bias = {
            label: problem.bias(problem.fixed_point(W, coefficients(method, W, momentum), lr))
            for label, method, momentum in METHODS_COMPARED
            if momentum in (0, beta)
        }
        yield {"lr": lr, **{label: value / bias["DSGD"] for label, value in bias.items()}}


def _measure(problem: Problem, built: Topology, method: str, lr: float, beta: float) -> tuple[float, float]:
    """The squared bias where training converges, and that of the fixed point."""
    x = RowWorkers(problem, METHODS[method](), built, lr, beta).settle(TOLERANCE, LIMIT)
    W = built.matrix(0)
    fixed = problem.fixed_point(W, coefficients(method, W, beta), lr)
    smallest = RELATIVE_ROUNDING * float((problem.optimum**2).sum())
    measured, exact = (value if value > smallest else 0.0 for value in (problem.bias(x), problem.bias(fixed)))
    return measured, exact
