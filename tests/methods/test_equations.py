"""Every method takes the steps of its equations, with virtual workers and on four gloo ranks."""

import numpy as np
import pytest

from decent_core import topology
from decent_core.methods import METHODS
from tests.support import quadratic, reference_methods
from tests.support.ranks import run_ranks

STEPS, WORLD, BETA, DECAY = 40, 4, 0.8, 0.05

#: method: (options, topology)
CASES = {
    "allreduce": ({}, "complete"),
    "atc": ({}, "one_peer_exp"),
    "awc": ({}, "one_peer_exp"),
    "decentlam": ({}, "ring"),
    "da": ({}, "base_k"),
    "qg": ({"mu": 0.7}, "alternating_ring"),
    "d2": ({"damped": True}, "ring"),
    "gradient_tracking": ({}, "one_peer_exp"),
    "sgp": ({}, "file"),
    "local_sgd": ({"every": 3}, "one_peer_exp"),
    "diloco": ({"every": 6}, "complete"),
    "noloco": ({"every": 3}, "random_match"),
    "dsgd_ac": ({"start_step": 5, "power": 2.0}, "ring"),
    "slowmo": ({"tau": 5, "alpha": 0.9, "slow_beta": 0.6}, "one_peer_exp"),
}


def rate(step: int) -> float:
    """Zero at first, as in a warm-up from nothing, then rising and falling."""
    return 0.1 * min(step, 4) / 4 * (1 if step < 25 else 0.5)


@pytest.fixture(scope="session")
def push_file(tmp_path_factory):
    """Two column-stochastic rounds that are not row-stochastic."""
    rounds = np.random.default_rng(5).uniform(0.1, 1, (2, WORLD, WORLD))
    path = tmp_path_factory.mktemp("push") / "rounds.npy"
    np.save(path, rounds / rounds.sum(1, keepdims=True))
    return str(path)


def graph_of(name: str, push_file: str, world_size: int = WORLD) -> topology.Topology:
    if name == "file":
        return topology.build("file", world_size, path=push_file, directed=True)
    return topology.build(name, world_size)


def expected(name: str, graph, **more) -> np.ndarray:
    """The reference's x [STEPS, N, D]."""
    options = {"beta": BETA, **more}
    decay = options.pop("decay", DECAY)
    problem = quadratic.task_of(graph.world_size).problem
    start = np.zeros((graph.world_size, quadratic.DIMENSION))
    function = getattr(reference_methods, name)

    def gradient(x: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        return problem.gradients(x) + decay * (x if at is None else at)

    return np.stack(list(function(start, gradient, graph.matrix, rate, STEPS, **options)))


def actual(name: str, options: dict, graph, rank=None, **more) -> np.ndarray:
    settings = {"beta": BETA, "decay": DECAY, **more}
    return quadratic.trajectory(name, graph, STEPS, lr=rate, options=options, rank=rank, **settings)


def test_every_method_has_a_case_and_a_reference():
    assert set(CASES) == set(METHODS)


@pytest.mark.parametrize("name", CASES)
def test_virtual_workers_follow_the_equations(name, push_file):
    options, graph = CASES[name]
    graph = graph_of(graph, push_file)
    np.testing.assert_allclose(
        actual(name, options, graph), expected(name, graph, **options), rtol=1e-11, atol=1e-13, err_msg=name
    )


@pytest.mark.parametrize("name", ["atc", "awc", "allreduce", "da", "gradient_tracking", "qg", "sgp"])
def test_nesterov_follows_the_equations(name, push_file):
    graph = graph_of(CASES[name][1], push_file)
    wanted = expected(name, graph, nesterov=True)
    np.testing.assert_allclose(actual(name, {}, graph, nesterov=True), wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("form", ["awc", "atc"])
def test_controlled_disagreement_in_both_forms(form):
    options = {"form": form, "start_step": 0, "power": 0.5}
    wanted = expected("dsgd_ac", quadratic.ring(WORLD), **options)
    np.testing.assert_allclose(actual("dsgd_ac", options, quadratic.ring(WORLD)), wanted, rtol=1e-11, atol=1e-13)
    assert np.abs(wanted[-1] - wanted[-1].mean(0)).max() > 1e-3, "workers keep apart"


def on_rank(rank: int, push_file: str) -> dict[str, np.ndarray]:
    return {name: actual(name, options, graph_of(g, push_file), rank) for name, (options, g) in CASES.items()}


def test_gloo_ranks_follow_the_equations(push_file):
    ranks = run_ranks(on_rank, WORLD, push_file)
    for name, (options, graph) in CASES.items():
        found = np.concatenate([rank[name] for rank in ranks], axis=1)
        wanted = expected(name, graph_of(graph, push_file), **options)
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13, err_msg=name)
