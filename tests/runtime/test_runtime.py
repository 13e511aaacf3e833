"""The runtime model: closed forms, published anchor values, and the simulation against a slow reference."""

import json
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decent_core import topology
from decent_core.runtime import (
    Noise,
    Workload,
    allreduce_time,
    best_speedup,
    constant,
    gossip_time,
    paper_workload,
    simulate_allreduce,
    simulate_gossip,
)
from tests.support import commands
from tests.support import runtime_reference as reference

N, B, THETA, VARIANCE = 32, 7, 0.364, 0.00695
PAPER = paper_workload(B, THETA, N)
WORLDS = {"torus": 36}
NAMES = [name for name in topology.names() if name != "file"]


@pytest.mark.parametrize(
    ("gamma", "allreduce", "gossip", "best"),
    [
        (0.5, 3.4354, 3.3640, 1.0212),
        (1, 3.5069, 3.3640, 1.0425),
        (2, 3.6497, 3.3640, 1.0849),
        (3.364, 5.0137, 3.3640, 1.4904),
        (4, 5.6497, 4.0000, 1.6795),
        (8, 9.6497, 8.0000, 2.8685),
    ],
)
def test_closed_forms_give_the_published_anchors(gamma, allreduce, gossip, best):
    assert allreduce_time(PAPER, gamma) / B == pytest.approx(allreduce, abs=5e-5)
    assert gossip_time(PAPER, gamma) / B == pytest.approx(gossip, abs=5e-5)
    assert best_speedup(PAPER, gamma) == pytest.approx(best, abs=5e-5)


def test_omega_has_no_effect_below_the_knee_and_saturates_under_its_limit():
    knee = 3 + THETA
    assert gossip_time(PAPER, 0.1) == gossip_time(PAPER, knee) < gossip_time(PAPER, knee + 1e-9)
    assert allreduce_time(PAPER, 4) / gossip_time(PAPER, knee) == pytest.approx(best_speedup(PAPER, 4))


def test_convention_b_has_the_published_limit():
    gamma, workers = 0.25, 10**9  # in units of a global batch's forward pass, for very many workers
    work = paper_workload(B, THETA, workers, "B")
    assert best_speedup(work, gamma * workers) == pytest.approx(1 + gamma / THETA, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gamma", [0.5, 3.364, 8])
def test_simulation_equals_the_closed_form_on_every_topology(name, gamma):
    built = topology.build(name, WORLDS.get(name, N), 4)
    simulated = simulate_gossip(PAPER, built, constant(gamma), Noise(), iterations=60, warm_up=20)
    assert simulated == pytest.approx(gossip_time(PAPER, gamma), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    buckets=st.integers(1, 9),
    forward=st.floats(0.1, 3),
    backward=st.floats(0.1, 3),
    update=st.floats(0, 2),
    gamma=st.floats(0, 12),
)
def test_simulation_equals_the_closed_forms_for_any_workload(buckets, forward, backward, update, gamma):
    work = Workload(buckets, forward, backward, update)
    pairs = topology.build("one_peer_hypercube", 4)
    assert simulate_allreduce(work, gamma, 4, Noise(), 40, 20) == pytest.approx(allreduce_time(work, gamma), rel=1e-12)
    assert simulate_gossip(work, pairs, constant(gamma), Noise(), 40, 20) == pytest.approx(
        gossip_time(work, gamma), rel=1e-12
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("granularity", ["pass", "bucket"])
def test_simulation_follows_the_rules_worker_by_worker(name, granularity):
    built = topology.build(name, {"torus": 9}.get(name, 8), 2)
    n = built.world_size
    noise = Noise(0.03, granularity, seed=3, slowdown=np.linspace(1, 1.3, n))
    ends = reference.gossip(PAPER, built, 3.0, noise, 30)
    slope = (ends[29].mean() - ends[9].mean()) / 20
    assert simulate_gossip(PAPER, built, constant(3.0), noise, 20, 10) == pytest.approx(slope, rel=1e-12)
    ends = reference.allreduce(PAPER, 3.0, n, noise, 30)
    assert simulate_allreduce(PAPER, 3.0, n, noise, 20, 10) == pytest.approx((ends[29] - ends[9]) / 20, rel=1e-12)


@pytest.mark.parametrize(
    ("gamma", "omega", "without", "complete", "aer", "one_peer"),
    [(1, 1, 1.042, 1.150, 1.151, 1.154), (4, 1, 1.412, 1.456, 1.456, 1.456), (4, 0.6, 1.679, 1.718, 1.720, 1.723)],
)
def test_noise_raises_the_speedup_as_published(gamma, omega, without, complete, aer, one_peer):
    expected = {"complete": complete, "aer": aer, "one_peer_hypercube": one_peer}
    allreduce = simulate_allreduce(PAPER, gamma, N, Noise(VARIANCE))
    assert allreduce_time(PAPER, gamma) / gossip_time(PAPER, omega * gamma) == pytest.approx(without, abs=6e-4)
    for name, speedup in expected.items():
        gossip = simulate_gossip(PAPER, topology.build(name, N, 4), constant(omega * gamma), Noise(VARIANCE))
        assert allreduce / gossip == pytest.approx(speedup, abs=0.004)


def test_looser_coupling_suffers_less_from_noise():
    times = [
        simulate_gossip(PAPER, topology.build(name, N, 4), constant(1.0), Noise(0.03))
        for name in ("one_peer_hypercube", "aer", "complete")
    ]
    assert times == sorted(times)
    assert times[0] < times[-1]


def test_one_persistent_straggler_slows_everyone_in_the_end():
    slow = np.ones(8)
    slow[5] = 2.0
    ring = topology.build("ring", 8)
    time_ = simulate_gossip(PAPER, ring, constant(1.0), Noise(slowdown=slow), iterations=200)
    assert time_ == pytest.approx(B * (2 * 3 + THETA), rel=1e-9)


@pytest.mark.parametrize(("granularity", "rows"), [("pass", 2), ("bucket", 2 * B), ("iteration", 1)])
def test_noise_is_a_cut_normal_and_a_pure_function(granularity, rows):
    noise = Noise(0.09, granularity, seed=1)
    forward, backward = noise.factors(5, 20_000, B)
    again = noise.factors(5, 20_000, B)
    assert np.array_equal(forward, again[0])
    assert np.array_equal(backward, again[1])
    assert not np.array_equal(forward, noise.factors(6, 20_000, B)[0])
    assert len(np.unique(np.vstack((forward, backward)), axis=0)) == {2: 2, 14: 1 + B, 1: 1}[rows]
    assert backward.min() >= 0.5
    assert backward.max() <= 1.5
    a = 0.5 / 0.3  # the standard deviation of a normal cut at +-a of its own deviations
    cut = np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
    inside = 1 - 2 * a * cut / 0.904419
    assert backward[0].std() == pytest.approx(0.3 * np.sqrt(inside), rel=0.02)
    assert backward[0].mean() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    "mistake",
    [lambda: Workload(0, 1, 2, 1), lambda: Workload(7, 1, float("nan"), 1), lambda: Noise(-1.0), lambda: Noise(4.0)],
)
def test_impossible_parameters_are_refused(mistake):
    with pytest.raises(ValueError, match="must"):
        mistake()


def test_a_thousand_iterations_of_4096_workers_fit_ten_seconds():
    start = time.process_time()
    simulate_gossip(PAPER, topology.build("one_peer_hypercube", 4096, 8), constant(2.4), Noise(VARIANCE), 1000, 0)
    assert time.process_time() - start < 10


def test_memory_for_a_million_workers_stays_under_a_gibibyte():
    tracemalloc.start()
    try:
        built = topology.build("one_peer_hypercube", 2**20, 8)
        simulate_gossip(PAPER, built, constant(2.4), Noise(VARIANCE), iterations=1, warm_up=0)
        assert tracemalloc.get_traced_memory()[1] < 2**30
    finally:
        tracemalloc.stop()


def script(*arguments):
    return commands.run("scripts.runtime", *arguments)


def test_script_prints_one_json_object():
    done = script(*["buckets=7", "update=0.364", "gamma=4", "omega=0.6", "variance=0", "topology=aer", "iterations=20"])
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["allreduce"] == pytest.approx(5.6497, abs=5e-5)
    assert found["decentralized"] == pytest.approx(3.3640, abs=5e-5)
    assert found["speedup"] == pytest.approx(1.6795, abs=5e-5)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["omega=1.2"], "omega=1.2: must lie above 0 and not above 1"),
        (["topology=aer", "world_size=7"], "topology aer with world_size=7"),
        (["gama=1"], "gama: no such key; did you mean gamma?"),
        (["figure"], "figure: neither key=value nor one of predict, figures"),
    ],
)
def test_script_answers_a_mistake_with_one_message_and_status_2(arguments, says):
    done = script(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
