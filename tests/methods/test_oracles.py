"""What must hold exactly: fixed points, means, identities between methods; virtual workers, and four gloo ranks."""

import tempfile

import numpy as np
import pytest
import torch
from torch import nn

from decent_core import topology
from decent_core.methods import METHODS
from tasks.regression.problem import coefficients, draw
from tasks.regression.rows import RowWorkers
from tasks.regression.settings import Settings
from tests.support import quadratic
from tests.support.ranks import run_ranks

WORLD = 4
RING = topology.build("ring", WORLD)
W = RING.matrix(0)
PROBLEM = quadratic.task_of(WORLD).problem

#: (method, momentum, options) that come to rest on the ring
RESTING = [
    ("atc", 0.0, {}), ("atc", 0.5, {}), ("awc", 0.0, {}), ("awc", 0.5, {}), ("decentlam", 0.5, {}), ("qg", 0.5, {}),
    ("da", 0.5, {}), ("d2", 0.0, {"damped": True}), ("d2", 0.5, {"damped": True}), ("gradient_tracking", 0.0, {}),
    ("gradient_tracking", 0.3, {}),
]  # fmt: skip
ON_RANKS = [case for case in RESTING if case[1] > 0]
#: methods whose mean follows x <- x - lr m with the mean momentum m of the workers' gradients, in every step
MEAN_LAW = {"atc", "awc", "decentlam", "da", "d2", "gradient_tracking"}


def rate(name: str) -> float:
    """As large as the method bears, so that few steps are enough."""
    return 0.12 if name == "gradient_tracking" else 0.3


def rest(case, rank=None) -> np.ndarray:
    name, beta, options = case
    steps = 250 if name == "gradient_tracking" else 150
    return quadratic.trajectory(name, RING, steps, lr=rate(name), beta=beta, options=options, rank=rank)


def push(rank=None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`sgp` without gradients from workers that are apart: z at first, z and the weights after each step."""
    rounds = np.random.default_rng(1).uniform(0.1, 1, (WORLD, WORLD))
    graph = _file(rounds / rounds.sum(0))
    engine, task = quadratic.quadratic_engine("sgp", graph, lr=0.0, rank=rank)
    for row, worker in zip(engine.x, engine.communicator.local_workers, strict=True):
        row[: quadratic.DIMENSION] += torch.arange(quadratic.DIMENSION) * (worker + 1.0) ** 2
    start, z, weights = quadratic.points(engine), [], []
    for _ in range(60):
        z += quadratic.run(engine, task, 1)
        weights.append(engine.method.w.numpy().copy())
    return start, np.stack(z), np.stack(weights)


def _file(matrix: np.ndarray) -> topology.Topology:
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, matrix)
        file.flush()
        return topology.build("file", WORLD, path=file.name, directed=True)


def on_rank(rank: int):
    return [rest(case, rank) for case in ON_RANKS], push(rank)


@pytest.fixture(scope="module")
def gloo():
    """The trajectories of ON_RANKS, and of `push`, joined from four ranks."""
    ranks = run_ranks(on_rank, WORLD)
    resting = [np.concatenate(parts, axis=1) for parts in zip(*(rank[0] for rank in ranks), strict=True)]
    start = np.concatenate([rank[1][0] for rank in ranks])
    return resting, (start, *(np.concatenate([rank[1][k] for rank in ranks], axis=1) for k in (1, 2)))


def check_rest(case, x: np.ndarray) -> None:
    name, beta, _ = case
    if name in ("d2", "gradient_tracking"):
        np.testing.assert_allclose(x[-1], np.tile(PROBLEM.optimum, (WORLD, 1)), rtol=0, atol=1e-10)
        return
    wanted = PROBLEM.fixed_point(W, coefficients(name, W, beta), rate(name))
    np.testing.assert_allclose(x[-1], wanted, rtol=0, atol=1e-10)
    assert np.abs(x[-1] - PROBLEM.optimum).max() > 1e-2, "the fixed point is not the optimum"


def check_mean(case, x: np.ndarray) -> None:
    name, beta, _ = case
    if name not in MEAN_LAW:
        return
    before, m = np.zeros((WORLD, quadratic.DIMENSION)), 0.0
    for step, after in enumerate(x):
        m = beta * m + PROBLEM.gradients(before).mean(0)
        np.testing.assert_allclose(
            after.mean(0), before.mean(0) - rate(name) * m, rtol=0, atol=1e-13, err_msg=f"step {step}"
        )
        before = after


@pytest.mark.parametrize("case", RESTING, ids=str)
def test_virtual_workers_rest_at_the_fixed_point_and_their_mean_obeys_its_law(case):
    x = rest(case)
    check_rest(case, x)
    check_mean(case, x)


@pytest.mark.slow
def test_gloo_ranks_rest_at_the_fixed_point_and_their_mean_obeys_its_law(gloo):
    for case, x in zip(ON_RANKS, gloo[0], strict=True):
        check_rest(case, x)
        check_mean(case, x)


def test_fixed_points_solve_the_equations_they_stand_for():
    """The solver against the equations as printed, so that both can't be wrong in the same way."""
    lr, beta, inverse = 0.3, 0.5, np.linalg.inv(np.eye(WORLD) - 0.5 * W)
    of = {name: PROBLEM.fixed_point(W, coefficients(name, W, beta), lr) for name in ("atc", "awc", "da", "decentlam")}
    F = {name: PROBLEM.gradients(x) for name, x in of.items()}
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(of["atc"], W @ (of["atc"] - lr / (1 - beta) * F["atc"]), **close)
    np.testing.assert_allclose((np.eye(WORLD) - W) @ of["awc"], -lr / (1 - beta) * F["awc"], **close)
    np.testing.assert_allclose(of["da"], W @ (of["da"] - lr * inverse @ F["da"]), **close)
    np.testing.assert_allclose(of["decentlam"], W @ (of["decentlam"] - lr * F["decentlam"]), **close)
    dsgd = PROBLEM.fixed_point(W, coefficients("atc", W, 0.0), lr / (1 - beta))
    np.testing.assert_allclose(of["atc"], dsgd, rtol=1e-13)


@pytest.mark.parametrize("world", ["virtual", pytest.param("gloo", marks=pytest.mark.slow)])
def test_push_keeps_the_sum_of_weights_and_finds_the_mean(world, request):
    start, z, weights = push() if world == "virtual" else request.getfixturevalue("gloo")[1]
    np.testing.assert_allclose(weights.sum(axis=(1, 2)), WORLD, rtol=1e-14)
    assert np.ptp(weights[-1]) > 0.1, "the rounds are not doubly stochastic"
    np.testing.assert_allclose((weights * z).sum(1), np.tile(start.sum(0), (60, 1)), rtol=1e-13)
    np.testing.assert_allclose(z[-1], np.tile(start.mean(0), (WORLD, 1)), rtol=1e-12)


def test_push_over_doubly_stochastic_rounds_is_atc():
    mine, theirs = (quadratic.trajectory(name, RING, 30, beta=0.9) for name in ("sgp", "atc"))
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-14)


def warm(step: int) -> float:
    """A rate that starts at zero and changes."""
    return 0.05 * min(step, 3)


def test_decentlam_without_momentum_is_dsgd():
    mine, theirs = (quadratic.trajectory(name, RING, 40, lr=warm) for name in ("decentlam", "atc"))
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-13)


def test_decentlam_in_one_line():
    beta, lr = 0.8, 0.1
    x = quadratic.trajectory("decentlam", RING, 40, lr=lr, beta=beta)
    for before, now, after in zip(x, x[1:], x[2:], strict=False):
        wanted = W @ (now - lr * PROBLEM.gradients(now)) + beta * (now - before)
        np.testing.assert_allclose(after, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("name", "beta"), [("decentlam", 0.8), ("atc", 0.0), ("da", 0.8), ("d2", 0.0)])
def test_with_the_exact_mean_it_is_parallel_sgd(name, beta):
    complete = topology.build("complete", WORLD)
    mine, theirs = (quadratic.trajectory(method, complete, 40, lr=warm, beta=beta) for method in (name, "allreduce"))
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-13)


def test_awc_over_complete_is_another_algorithm_than_allreduce():
    complete = topology.build("complete", WORLD)
    awc, allreduce = (quadratic.trajectory(method, complete, 3, lr=0.1) for method in ("awc", "allreduce"))
    np.testing.assert_allclose(awc[0].mean(0), allreduce[0].mean(0), atol=1e-15)
    assert not np.allclose(awc[1].mean(0), allreduce[1].mean(0))


def plain(steps: int, beta: float, nesterov: bool) -> np.ndarray:
    """torch's SGD alone on the only worker's loss."""
    task = quadratic.task_of(1)
    model = task.build_model().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=beta, nesterov=nesterov, weight_decay=0.01)
    found = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = warm(step)
        optimizer.zero_grad()
        task.loss_sum(model, task.batch(step, 0)).backward()
        optimizer.step()
        found.append(nn.utils.parameters_to_vector(model.parameters()).detach().numpy().copy()[None])
    return np.stack(found)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("name", ["allreduce", "awc", "atc", "decentlam", "da", "d2", "gradient_tracking", "sgp"])
def test_one_worker_trains_as_if_it_were_alone(name, nesterov):
    if nesterov and not METHODS[name].takes_nesterov:
        pytest.skip("refused: the method is defined with heavy-ball momentum")
    settings = {"lr": warm, "beta": 0.9, "decay": 0.01, "nesterov": nesterov}
    found, wanted = quadratic.trajectory(name, quadratic.ring(1), 40, **settings), plain(40, 0.9, nesterov)
    if name == "decentlam":  # x - (x - lr g) is not lr g in every bit
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)
    else:
        np.testing.assert_array_equal(found, wanted)


LEAST_SQUARES = draw(Settings("regression", "least_squares", 30, 50, 1.0, 1), 8)


def biases(lr: float, beta: float = 0.9) -> dict[str, float]:
    """Squared biases over DSGD's on a ring of 8."""
    ring = topology.build("ring", 8).matrix(0)
    assert abs(np.sort(np.abs(np.linalg.eigvalsh(ring)))[-2] - 0.8047) < 1e-4
    names = {"dsgd": ("atc", 0.0), "dmsgd": ("atc", beta), "awc": ("awc", beta), "da": ("da", beta)}
    names["decentlam"] = ("decentlam", beta)
    found = {
        label: LEAST_SQUARES.bias(LEAST_SQUARES.fixed_point(ring, coefficients(method, ring, momentum), lr))
        for label, (method, momentum) in names.items()
    }
    return {label: value / found["dsgd"] for label, value in found.items()}


@pytest.mark.parametrize(("lr", "ratio"), [(1e-3, 17.0), (1e-4, 69.3), (1e-5, 95.9)])
def test_momentum_inflates_the_bias_towards_its_limit(lr, ratio):
    found = biases(lr)
    assert found["dmsgd"] == pytest.approx(ratio, abs=0.06)
    assert found["decentlam"] == pytest.approx(1, abs=1e-3)
    assert found["decentlam"] <= found["da"] < found["dmsgd"] < found["awc"]


@pytest.mark.parametrize("name", ["atc", "decentlam", "awc", "da", "qg", "d2", "gradient_tracking"])
def test_row_workers_take_the_engines_steps(name):
    options = {"damped": True} if name == "d2" else {}
    engine = quadratic.trajectory(name, RING, 30, lr=0.1, beta=0.8, options=options)
    rows = RowWorkers(PROBLEM, METHODS[name](**options), RING, 0.1, 0.8)
    for step, x in enumerate(engine):
        np.testing.assert_allclose(rows.train(1), x, rtol=0, atol=1e-13, err_msg=f"step {step}")


def test_least_squares_rests_at_the_fixed_point_with_many_steps():
    ring = topology.build("ring", 8)
    for name in ("atc", "decentlam"):
        x = RowWorkers(LEAST_SQUARES, METHODS[name](), ring, 1e-3, 0.9).settle(1e-12, 5000)
        wanted = LEAST_SQUARES.fixed_point(ring.matrix(0), coefficients(name, ring.matrix(0), 0.9), 1e-3)
        np.testing.assert_allclose(x, wanted, rtol=0, atol=1e-10)
