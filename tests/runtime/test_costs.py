"""Costs of exchanges on a network: hand-computed cases."""

import numpy as np
import pytest

from decent_core import topology
from decent_core.runtime import Network, Noise, Workload, per_group, simulate_gossip

#: 1 MB messages, 1 MB/s between nodes, 10 MB/s inside; latencies 10 ms and 1 ms
NETWORK = Network(1e6, 1e6, 0.01, 1e7, 0.001)


def durations(name, world_size, local_size, step=0):
    built = topology.build(name, world_size, local_size)
    return built.round(step), NETWORK(built.round(step), built.node_of)


def test_a_pair_inside_a_node_takes_a_message_at_the_local_rate():
    _, (cost,) = durations("one_peer_hypercube", 8, 4)
    assert cost == pytest.approx([0.1 + 0.001] * 4)


def test_pairs_across_nodes_share_the_link_of_their_node():
    _, (cost,) = durations("one_peer_hypercube", 8, 4, step=2)
    assert cost == pytest.approx([4 * 1.0 + 0.01] * 4)


def test_a_ring_over_nodes_crosses_each_link_once():
    _, (cost,) = durations("complete", 8, 4)
    assert cost == pytest.approx([2 * 7 / 8 + 14 * 0.01])


def test_many_workers_reduce_by_a_tree_where_latency_counts():
    built = topology.build("complete", 1024, 1)
    (cost,) = Network(1.0, 1e6, 0.01, 1e7, 0.001)(built.round(0), built.node_of)
    assert cost == pytest.approx([20 * 0.01], rel=1e-3)


def test_aer_rounds_cost_each_group_its_own():
    round_, costs = durations("aer", 16, 4)
    sizes = [groups.shape[1] for groups in round_.groups]
    assert sizes == [4, 8]
    assert costs[0] == pytest.approx([2 * 3 / 4 * 0.1 + 6 * 0.001] * 2)
    assert costs[1] == pytest.approx([2 * 7 / 8 + 14 * 0.01])


def test_directed_peers_load_the_link_only_where_they_cross():
    _, (cost,) = durations("directed_ring", 8, 4)
    crossing = 1.0 + 0.01
    inside = 0.1 + 0.001
    assert cost == pytest.approx([crossing, inside, inside, crossing] * 2)


def test_a_worker_alone_takes_no_time():
    _, costs = durations("aer", 4, 1)
    assert costs[0] == pytest.approx([0.0, 0.0])


def test_per_group_asks_for_kind_size_and_crossing():
    asked = set()

    def duration(kind, size, crosses):
        asked.add((kind, size, crosses))
        return 5.0 if crosses else 0.5

    work = Workload(2, 1.0, 1.0, 0.0)
    built = topology.build("aer", 16, 4)
    time_ = simulate_gossip(work, built, per_group(duration), Noise(), 40, 20)
    assert asked == {("group", 4, False), ("group", 8, True)}
    # in turns 0.5 and 5.0 for every worker: of two iterations the crossing one waits for its two exchanges
    assert 4.0 < time_ < 10.0
    star = topology.build("star", 5, 2)
    (cost,) = per_group(duration)(star.round(0), star.node_of)
    assert asked >= {("peers", 4, True), ("peers", 1, False), ("peers", 1, True)}
    assert np.array_equal(cost, [5.0, 0.5, 5.0, 5.0, 5.0])
