"""Every topology, for every world up to 33 workers that it serves: its matrices, its plans, its bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decent_core import topology
from decent_core.topology import GroupPlan, GroupRound, PeerPlan, Round
from decent_core.topology.make_rounds import peers
from tests.support import topology_reference as reference

CHANCE_OR_SEARCH = {"base_k", "equistatic", "random_match"}
VARIANTS = [pytest.param(name, options, id=f"{name}-{options}") for name, options in reference.VARIANTS]


def built(name: str, options: dict):
    for n in reference.WORLDS:
        if reference.served(name, n):
            yield topology.build(name, n, **options)


def steps(built_: topology.Topology) -> range:
    return range(min(built_.period, 24))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_topology_rounds_are_doubly_stochastic_and_keep_some_of_oneself(name, options):
    for t in built(name, options):
        for step in steps(t):
            weights = t.matrix(step)
            assert weights.shape == (t.world_size, t.world_size)
            assert weights.dtype == np.float64
            assert weights.min() >= 0
            assert np.diag(weights).min() > 0
            np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=0, atol=1e-12)
            np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in topology.names() if name not in {*CHANCE_OR_SEARCH, "file"}])
def test_topology_equals_the_rule_written_literally(name):
    for t in built(name, {}):
        expected = reference.rounds(name, t.world_size)
        assert t.period == len(expected)
        for step, weights in enumerate(expected):
            np.testing.assert_allclose(t.matrix(step), weights, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("nodes", "local_size"), [(2, 1), (2, 3), (4, 4), (8, 2), (16, 2)])
def test_aer_over_nodes_equals_the_rule_written_literally(nodes, local_size):
    t = topology.build("aer", nodes * local_size, local_size)
    expected = reference.aer(nodes, local_size)
    assert t.period == len(expected)
    for step, weights in enumerate(expected):
        np.testing.assert_allclose(t.matrix(step), weights, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_topology_repeats_after_its_period_and_is_a_pure_function_of_the_step(name, options):
    for t in built(name, options):
        assert isinstance(t.period, int)
        again = topology.build(name, t.world_size, **options)
        for step in reversed(steps(t)):
            np.testing.assert_array_equal(t.matrix(step), again.matrix(step + 3 * t.period))
            np.testing.assert_array_equal(t.matrix(step), again.matrix(np.int64(step)))


def dense(round_: Round) -> np.ndarray:
    """The matrix as the workers' plans describe it; sends must mirror receives."""
    n = round_.world_size
    weights = np.zeros((n, n))
    sent, received = set(), set()
    for rank in range(n):
        plan = round_.plan(rank)
        if isinstance(plan, GroupPlan):
            assert isinstance(round_, GroupRound)
            assert rank in plan.members
            assert all(round_.plan(member) == plan for member in plan.members)
            weights[rank, list(plan.members)] = plan.weight
        else:
            assert isinstance(plan, PeerPlan)
            weights[rank, rank] = plan.self_weight
            for peer, weight in plan.receives:
                weights[rank, peer] += weight
                received.add((peer, rank))
            assert len(set(plan.sends)) == len(plan.sends)
            sent |= {(rank, peer) for peer in plan.sends}
    assert sent == received
    assert all(giver != taker for giver, taker in sent)
    return weights


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_topology_plans_of_all_ranks_make_up_the_matrix(name, options):
    for t in built(name, options):
        for step in steps(t)[:6]:
            np.testing.assert_array_equal(dense(t.round(step)), t.matrix(step))


def is_uniform_groups(weights: np.ndarray) -> bool:
    return all(
        np.array_equal(row > 0, other > 0) and np.allclose(row[row > 0], 1 / (row > 0).sum(), rtol=0, atol=1e-13)
        for row in weights
        for other in weights[row > 0]
    )


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_topology_rounds_are_groups_exactly_where_groups_describe_them(name, options):
    for t in built(name, options):
        for step in steps(t)[:6]:
            round_ = t.round(step)
            assert isinstance(round_, GroupRound) == is_uniform_groups(round_.matrix())
            if isinstance(round_, GroupRound):
                members = np.concatenate([groups.ravel() for groups in round_.groups])
                assert sorted(members.tolist()) == list(range(t.world_size))
                sizes = [groups.shape[1] for groups in round_.groups]
                assert sizes == sorted(set(sizes))
            else:
                assert round_.sources.shape == round_.weights.shape
                assert (round_.sources[:, 0] == np.arange(t.world_size)).all()


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_topology_bytes_sent_follow_from_the_plans(name, options):
    for t in built(name, options):
        for step in steps(t)[:6]:
            round_ = t.round(step)
            for rank, sent in enumerate(round_.bytes_sent(1000.0)):
                plan = round_.plan(rank)
                if isinstance(plan, PeerPlan):
                    assert sent == 1000 * len(plan.sends)
                else:
                    m = len(plan.members)
                    assert sent == pytest.approx(1000 if m == 2 else 2000 * (m - 1) / m, rel=1e-15)


@st.composite
def weighted_edges(draw):
    n = draw(st.integers(1, 8))
    edge = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.sampled_from([0.0, 0.125, 0.25, 0.5]))
    edges = draw(st.lists(edge, max_size=20))
    return n, edges, draw(st.sampled_from([None, 0.0, 0.25]))


@given(weighted_edges())
def test_peers_adds_up_edges_whatever_their_order_and_repetition(case):
    n, edges, self_weight = case
    receivers, senders, weights = (
        (np.array(column) for column in zip(*edges, strict=True)) if edges else [np.zeros(0, int)] * 3
    )
    expected = np.zeros((n, n))
    for receiver, sender, weight in edges:
        expected[receiver, sender] += weight
    expected += np.diag(1 - expected.sum(axis=1) if self_weight is None else np.full(n, self_weight))
    round_ = peers(n, receivers, senders, weights, self_weight)
    np.testing.assert_allclose(round_.matrix(), expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(dense(round_), expected, rtol=0, atol=1e-15)


@given(st.permutations(range(9)), st.sampled_from([(9,), (4, 5), (2, 2, 2, 3), (1, 4, 4), (1, 2, 6)]))
def test_peers_finds_any_uniform_groups(order, sizes):
    groups = np.split(np.array(order), np.cumsum(sizes)[:-1])
    edges = [(i, j, 1 / len(group)) for group in groups for i in group for j in group if i != j]
    receivers, senders, weights = (np.array(column) for column in zip(*edges, strict=True))
    round_ = peers(9, receivers, senders, weights)
    assert isinstance(round_, GroupRound)
    found = {tuple(row) for array in round_.groups for row in array.tolist()}
    assert found == {tuple(sorted(group.tolist())) for group in groups}
