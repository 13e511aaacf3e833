"""Exact values that prove a topology right."""

import math

import numpy as np
import pytest

from decent_core import topology
from decent_core.topology import analysis

CLOSE = {"rel": 0, "abs": 1e-12}
WORLDS = range(2, 34)


def mean(n: int) -> np.ndarray:
    return np.full((n, n), 1 / n)


def rho(name: str, n: int, **options) -> float:
    t = topology.build(name, n, **options)
    assert t.period == 1
    return analysis.second_eigenvalue(t.matrix(0))


def test_complete_is_the_mean():
    for n in WORLDS:
        np.testing.assert_allclose(topology.build("complete", n).matrix(0), mean(n), rtol=0, atol=1e-15)


def test_ring_second_eigenvalue():
    for n in range(4, 34):
        assert rho("ring", n) == pytest.approx((1 + 2 * math.cos(2 * math.pi / n)) / 3, **CLOSE)


def test_directed_ring_second_eigenvalue():
    for n in WORLDS:
        assert rho("directed_ring", n) == pytest.approx(math.cos(math.pi / n), **CLOSE)


def test_static_exp_spectral_gap():
    for n in range(2, 34, 2):
        assert 1 - rho("static_exp", n) == pytest.approx(2 / (math.ceil(math.log2(n)) + 1), **CLOSE)


def test_hypercube_second_eigenvalue():
    for k in range(1, 6):
        assert rho("hypercube", 2**k) == pytest.approx((k - 1) / (k + 1), **CLOSE)


def test_torus_second_eigenvalue():
    for m in range(3, 7):
        assert rho("torus", m * m) == pytest.approx((3 + 2 * math.cos(2 * math.pi / m)) / 5, **CLOSE)


def test_star_second_eigenvalue():
    for n in range(3, 34):
        assert rho("star", n) == pytest.approx(1 - 1 / n, **CLOSE)


def test_alternating_ring_contraction_over_its_two_rounds():
    for n in range(4, 34, 2):
        contraction = analysis.contraction(topology.build("alternating_ring", n))
        assert contraction == pytest.approx(math.cos(2 * math.pi / n), **CLOSE)
    assert analysis.rounds_to(topology.build("alternating_ring", 4), 1e-9) == 2


def test_one_peer_exp_contraction_over_its_period():
    for n in WORLDS:
        t = topology.build("one_peer_exp", n)
        assert t.period == math.ceil(math.log2(n))
        angles = math.pi * np.arange(1, n) / n
        expected = np.abs(np.sin(2**t.period * angles) / (2**t.period * np.sin(angles))).max()
        assert analysis.contraction(t) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize(("n", "expected"), [(3, 0.25), (5, 0.2023), (6, 0.2165), (7, 0.125), (12, 0.2091), (8, 0)])
def test_one_peer_exp_known_contractions(n, expected):
    assert analysis.contraction(topology.build("one_peer_exp", n)) == pytest.approx(expected, abs=5e-5)


def test_one_peer_hypercube_reaches_the_mean_from_any_phase():
    for k in range(1, 6):
        t = topology.build("one_peer_hypercube", 2**k)
        assert t.period == k
        for phase in range(k):
            np.testing.assert_allclose(analysis.period_product(t, phase), mean(2**k), rtol=0, atol=1e-12)


@pytest.mark.parametrize("nodes", [2, 4, 8, 16])
@pytest.mark.parametrize("local_size", [1, 2, 3, 4])
def test_aer_reaches_the_mean_from_a_stage_boundary_and_half_of_it_in_between(nodes, local_size):
    n = nodes * local_size
    t = topology.build("aer", n, local_size)
    assert t.period == 2 * math.log2(nodes)
    for phase in range(t.period):
        error = np.linalg.norm(analysis.period_product(t, phase) - mean(n), 2)
        half = phase % 2 == 1 and nodes > 2  # two nodes have one stage, whose rounds commute
        assert error == pytest.approx(0.5 if half else 0, **CLOSE)
        for group in t.round(phase).groups:
            assert group.shape[1] in (local_size, 2 * local_size)


@pytest.mark.parametrize("sizes", [(4, 2), (3, 1, 2, 5), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_aer_over_unequal_nodes_approaches_the_mean(sizes):
    t = topology.build("aer", sum(sizes), sizes)
    assert t.node_of.tolist() == [node for node, size in enumerate(sizes) for _ in range(size)]
    for step in range(t.period):
        weights = t.matrix(step)
        np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=0, atol=1e-12)
        spans = {frozenset(t.node_of[list(t.round(step).plan(rank).members)]) for rank in range(sum(sizes))}
        assert {len(span) for span in spans} <= {1, 2}
    assert analysis.contraction(t) < 0.5
    assert analysis.rounds_to_worst(t, 1e-9) is not None


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7])
def test_base_k_reaches_the_mean_in_one_short_period_with_few_peers(k):
    for n in range(1, 101):
        t = topology.build("base_k", n, k=k)
        np.testing.assert_allclose(analysis.period_product(t), mean(n), rtol=0, atol=1e-12)
        assert t.period <= 2 * math.log(n, k + 1) + 2 + 1e-9
        assert max(((t.matrix(step) > 0).sum(axis=1) - 1).max() for step in range(t.period)) <= k


def test_base_k_published_lengths():
    # Takezawa et al. 2023: powers of two as the hypercube; 6 = 2 x 3 workers in 4 rounds, not the 5 of 4 + 2
    assert [topology.build("base_k", n).period for n in (2, 3, 4, 5, 6, 7, 8)] == [1, 3, 2, 5, 4, 5, 3]


@pytest.mark.parametrize("kind", ["d", "u"])
def test_equistatic_over_all_offsets_is_the_mean(kind):
    for n in WORLDS:
        t = topology.build("equistatic", n, m=n - 1, kind=kind)
        np.testing.assert_allclose(t.matrix(0), mean(n), rtol=0, atol=1e-14)


def test_equistatic_is_the_mean_of_m_circulants():
    for n in (5, 12):
        weights = topology.build("equistatic", n, m=2, seed=4).matrix(0)
        links = weights - np.diag(np.diag(weights))
        assert np.diag(weights) == pytest.approx(np.full(n, 1 / n))
        assert np.unique(links).round(15).tolist() == pytest.approx([0, (n - 1) / n / 2])
        assert (links > 0).sum() == 2 * n
        symmetric = topology.build("equistatic", n, m=2, seed=4, kind="u").matrix(0)
        np.testing.assert_allclose(symmetric, (weights + weights.T) / 2, rtol=0, atol=1e-15)


def test_equistatic_and_random_match_depend_on_the_seed_alone():
    for name in ("equistatic", "random_match"):
        first, same, other = (topology.build(name, 20, seed=seed).matrix(5) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, same)
        assert not np.array_equal(first, other)


def test_random_match_pairs_everybody_afresh_each_round():
    for n in (12, 13):
        t = topology.build("random_match", n)
        matrices = [t.matrix(step) for step in range(50)]
        for weights in matrices:
            np.testing.assert_array_equal(weights, weights.T)
            assert sorted(np.diag(weights).tolist()) == [0.5] * (n // 2 * 2) + [1.0] * (n % 2)
        assert len({weights.tobytes() for weights in matrices}) == 50
        pairs = np.mean([topology.build("random_match", n, seed=seed).matrix(0) for seed in range(400)], axis=0)
        off = pairs[~np.eye(n, dtype=bool)]
        expected = 0.5 * (n // 2) / (n * (n - 1) / 2)
        assert off == pytest.approx(np.full(off.shape, expected), abs=0.06)


def test_grid_takes_the_rows_asked_for():
    path = topology.build("grid", 6, rows=1).matrix(0)
    assert (path > 0).sum() == 6 + 2 * 5
    np.testing.assert_array_equal(path, path.T)
    assert (topology.build("grid", 6, rows=3).matrix(0) > 0).sum() == 6 + 2 * 7


def test_push_exp_keeps_the_sum_and_says_that_it_pushes():
    for n in WORLDS:
        t = topology.build("push_exp", n)
        assert t.push
        for step in range(t.period):
            np.testing.assert_allclose(t.matrix(step).sum(axis=0), 1, rtol=0, atol=1e-12)
            assert np.flatnonzero(t.matrix(step)[:, 0]).tolist() == [0, 2**step]
    assert not topology.build("one_peer_exp", 4).push


def test_single_worker_keeps_everything():
    for name in topology.names():
        if name != "file":
            t = topology.build(name, 1)
            assert t.period == 1
            np.testing.assert_array_equal(t.matrix(17), [[1.0]])
            assert t.round(0).bytes_sent(100.0).tolist() == [0.0]


@pytest.mark.parametrize("name", ["complete", "one_peer_exp", "random_match", "base_k"])
def test_rounds_of_a_million_workers_need_no_matrix(name):
    t = topology.build(name, 10**6)
    sent = t.round(0).bytes_sent(4.0)
    assert sent.shape == (10**6,)
    plan = t.round(0).plan(123_456)
    assert sent[123_456] > 0
    assert plan == t.round(0).plan(123_456)
