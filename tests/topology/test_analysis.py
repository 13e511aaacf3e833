"""Contraction and rounds to consensus, against the same computed step by step."""

import math

import numpy as np
import pytest

from decent_core import topology
from decent_core.topology import analysis


def rounds_one_by_one(t: topology.Topology, error: float, phase: int, limit: int) -> int | None:
    product = np.eye(t.world_size)
    for rounds in range(limit + 1):
        if np.linalg.norm(product - 1 / t.world_size, 2) < error:
            return rounds
        product = t.matrix(phase + rounds) @ product
    return None


@pytest.mark.parametrize("name", [name for name in topology.names() if name != "file"])
def test_rounds_to_equals_counting_one_by_one(name):
    for n in (2, 4, 9, 16):
        try:
            t = topology.build(name, n)
        except ValueError:
            continue
        phases = range(min(t.period, 3))
        for error in (1e-9, 1e-3):
            counted = [rounds_one_by_one(t, error, phase, 3000) for phase in phases]
            assert [analysis.rounds_to(t, error, phase) for phase in phases] == counted
            if t.period <= 3:
                assert analysis.rounds_to_worst(t, error) == max(counted)


def test_rounds_to_respects_its_limit_and_knows_what_never_mixes():
    ring = topology.build("ring", 16)
    needed = rounds_one_by_one(ring, 1e-9, 0, 1000)
    assert analysis.rounds_to(ring, 1e-9, limit=needed) == needed
    assert analysis.rounds_to(ring, 1e-9, limit=needed - 1) is None


def test_a_topology_of_two_halves_never_mixes(tmp_path):
    halves = np.kron(np.eye(2), np.full((2, 2), 0.5))
    np.save(tmp_path / "halves.npy", halves)
    t = topology.build("file", 4, path=str(tmp_path / "halves.npy"))
    assert analysis.rounds_to(t, 1e-3) is None
    assert analysis.rounds_to_worst(t, 1e-3) is None
    assert analysis.contraction(t) == pytest.approx(1, abs=1e-12)
    assert analysis.second_eigenvalue(t.matrix(0)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", ["ring", "alternating_ring", "one_peer_exp", "grid", "equistatic", "push_exp"])
def test_contraction_is_the_norm_of_the_product(name):
    for n in (6, 12):
        t = topology.build(name, n)
        expected = np.linalg.norm(analysis.period_product(t) - 1 / n, 2)
        assert analysis.contraction(t) == pytest.approx(expected, abs=1e-12)
        assert analysis.contraction_per_round(t) == pytest.approx(expected ** (1 / t.period), abs=1e-12)


def test_contraction_of_a_long_period_is_not_lost_in_rounding():
    t = topology.build("random_match", 7)
    per_round = analysis.contraction_per_round(t)
    first = np.eye(7)
    for step in range(40):
        first = t.matrix(step) @ first
    assert per_round == pytest.approx(np.linalg.norm(first - 1 / 7, 2) ** (1 / 40), abs=0.1)
    assert 0 < analysis.contraction(t) < 1e-100


def test_push_topology_is_measured_after_weighing_out(tmp_path):
    pushed = np.array([[0.5, 0, 0.2], [0.5, 0.6, 0], [0, 0.4, 0.8]])
    np.save(tmp_path / "push.npy", pushed)
    t = topology.build("file", 3, path=str(tmp_path / "push.npy"), directed=True)
    rounds = analysis.rounds_to(t, 1e-9)
    product = np.linalg.matrix_power(pushed, rounds)
    np.testing.assert_allclose(product / product.sum(axis=1, keepdims=True), 1 / 3, rtol=0, atol=1e-9)
    assert analysis.contraction(t) == pytest.approx(analysis.second_eigenvalue(pushed), abs=1e-12)


def test_bytes_sent_of_a_schedule():
    aer = analysis.bytes_sent(topology.build("aer", 16, 4), 8.0)
    assert aer.mean == pytest.approx(8 * (2 * 3 / 4 + 2 * 7 / 8) / 2)
    assert aer.max == pytest.approx(8 * 2 * 7 / 8)
    star = analysis.bytes_sent(topology.build("star", 5), 1.0)
    assert (star.mean, star.max) == (pytest.approx(8 / 5), 4)
    assert math.isclose(analysis.bytes_sent(topology.build("random_match", 9), 1.0).mean, 8 / 9)
