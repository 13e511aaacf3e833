"""Profiles, machines and advice: from measured files and from descriptions, as a user asks for them."""

import json
from dataclasses import replace

import pytest

from decent_core import topology
from decent_core.report.advice import verdict
from decent_core.runtime import Network, Noise
from decent_core.runtime.exchanges import COUNTER, exchange_keys
from decent_core.runtime.forecast import forecast
from decent_core.runtime.interconnect import Links, Measured
from decent_core.runtime.machines import Profile, interconnect_for, read_profile
from decent_core.runtime.predict import Step, predict_allreduce, predict_gossip
from scripts import advise
from tests.support import commands

#: 10 MB of parameters in two buckets, 30 ms forward and backward, 1 ms update
STEP = Step(0.01, 0.02, 0.001, 1e7, 5e6, Noise())
#: 1 GB/s between nodes, 10 GB/s inside; no latency
FAST = Network(0.0, 1e9, 0.0, 1e10, 0.0)


def test_a_hidden_exchange_leaves_computing_as_the_limit():
    found = predict_gossip(STEP, Links(FAST), topology.build("one_peer_hypercube", 8, 4))
    assert (found.seconds, found.limit) == (pytest.approx((0.03 + 0.03 + 0.04) / 3 + 0.001, rel=1e-3), "bandwidth")
    found = predict_gossip(STEP, Links(FAST), topology.build("aer", 8, 4))
    assert (found.seconds, found.limit) == (pytest.approx(0.031), "compute")


def test_pieces_hide_an_exchange_under_the_update_too():
    """30 or 50 ms to send, 40 ms to compute, 10 of them for the update: in one piece it hides nothing."""
    slow, pairs = Links(Network(0.0, 1e7 / 0.03, 0.0, 1e10, 0.0)), topology.build("one_peer_hypercube", 2, 1)
    whole, pieces = (predict_gossip(replace(STEP, update=0.01, pieces=n), slow, pairs).seconds for n in (1, 8))
    assert (whole, pieces) == (pytest.approx(0.03 + 0.01), pytest.approx(0.04))
    slower = Links(Network(0.0, 1e7 / 0.05, 0.0, 1e10, 0.0))
    whole, pieces = (predict_gossip(replace(STEP, update=0.01, pieces=n), slower, pairs).seconds for n in (1, 8))
    assert (whole, pieces) == (pytest.approx(0.05 + 0.01), pytest.approx(0.05))


def test_allreduce_is_predicted_by_the_closed_form():
    found = predict_allreduce(STEP, Links(FAST), 8, 4)
    gamma = 2 * 7 / 8 * 5e6 / 1e9
    assert found.seconds == pytest.approx(0.01 + max(0.02 + gamma, 0.01 + 2 * gamma) + 0.001)
    assert found.limit == "bandwidth"


def test_the_cause_that_costs_most_is_named():
    slow = Links(Network(0.0, 1e12, 1.0, 1e12, 1.0))
    assert predict_allreduce(STEP, slow, 8, 4).limit == "latency"
    noisy = Step(0.01, 0.02, 0.001, 8.0, 8.0, Noise(0.02))
    assert predict_allreduce(noisy, Links(FAST), 64, 8).limit == "stragglers"


def test_measured_exchanges_are_interpolated_between_sizes():
    cost = Measured({("group", 2, True, 1.0): {0: 1.0, 100: 3.0}}).cost(50)
    pairs = topology.build("one_peer_hypercube", 2, 1)
    assert cost(pairs.round(0), pairs.node_of)[0] == pytest.approx([2.0])
    cost = Measured({("group", 2, True, 1.0): {0: 1.0, 100: 3.0}}).cost(50, latency=False)
    assert cost(pairs.round(0), pairs.node_of)[0] == pytest.approx([1.0])


def profile_of(network, world_size, local_size):
    """What a profile would write on these links."""
    exchanges = []
    for built in topology.feasible(world_size, local_size):
        seen = set()
        for step in range(built.period):
            round_ = built.round(step)
            for message_bytes in (4, 1_000_000):
                cost = Links(network).cost(message_bytes)(round_, built.node_of)
                keys = exchange_keys(round_, built.node_of)
                for groups, durations in zip(getattr(round_, "groups", ()), cost, strict=False):
                    for members, seconds in zip(groups, durations, strict=True):
                        key = keys[members[0]]
                        if key is not None and (key, message_bytes) not in seen:
                            seen.add((key, message_bytes))
                            entry = dict(zip(("kind", "size", "crosses", "load"), key, strict=True))
                            entry |= {"topology": built.name, "bytes": message_bytes, "median": 1000 * seconds}
                            exchanges.append(entry)
    times = {name: {"median": 10.0} for name in ("forward_ms", "backward_ms", "update_ms")}
    values = {"schema": 1, "world_size": world_size, "local_size": local_size, "message_bytes": 1e6, **times}
    return Profile({**values, "bucket_bytes": 1e6, "variance": 0.0, "exchanges": exchanges})


def test_links_are_found_again_from_a_profile():
    network = Network(0.0, 2e8, 1e-4, 3e9, 1e-5)
    found = profile_of(network, 8, 4).network()
    assert found is not None
    assert found.link_bandwidth == pytest.approx(network.link_bandwidth, rel=0.05)
    assert found.latency == pytest.approx(network.latency, rel=0.6)
    assert found.local_bandwidth == pytest.approx(network.local_bandwidth, rel=0.05)
    assert found.local_latency == pytest.approx(network.local_latency, rel=0.3)


def test_the_measured_world_is_predicted_from_what_was_measured():
    profile = profile_of(Network(0.0, 2e8, 1e-4, 3e9, 1e-5), 8, 4)
    assert isinstance(interconnect_for(profile, None, "aer", (8, 4)), Measured)
    assert isinstance(interconnect_for(profile, None, "aer", (16, 4)), Links)
    assert (
        interconnect_for(profile, None, "ring", (8, 4)) is None
    )  # the profile above has no exchanges with weighted peers
    one_node = profile_of(Network(0.0, 2e8, 1e-4, 3e9, 1e-5), 4, 4)
    assert interconnect_for(one_node, None, "complete", (8, 4)) is None


def test_the_counter_counts_messages_on_the_busiest_link():
    pairs = topology.build("one_peer_hypercube", 8, 4)
    assert COUNTER(pairs.round(2), pairs.node_of)[0] == pytest.approx([4.0] * 4)


def test_advice_for_a_machine_that_is_not_at_hand(tmp_path, monkeypatch, capsys):
    machine = ["link_gbps=25", "latency_us=20", "nodes=4", "local_size=4"]
    out = f"out={tmp_path}/a.png"
    monkeypatch.setenv("COLUMNS", "100")
    advise.main(["compute_ms=180", "update_ms=4", "parameters=124M", *machine, out])
    printed = capsys.readouterr().out
    for part in ("16 workers", "aer", "Gossip will pay with 16 workers", "All-Reduce is limited by bandwidth"):
        assert part in printed
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_advice_says_where_gossip_does_not_pay():
    step = Step(0.01, 0.02, 0.001, 4e3, 4e3, Noise())
    found = forecast(step, None, Network(0.0, 1e10, 1e-6, 1e11, 1e-6), (8, 4), explain=True)
    assert found is not None
    assert verdict(found, step).startswith("Gossip will hardly pay with 8 workers")


def test_very_many_workers_get_the_sparse_topologies_alone():
    pairs = {"one_peer_exp", "one_peer_hypercube", "random_match", "alternating_ring"}
    found = {built.name for built in topology.feasible(1 << 20, 8)}
    assert found == {"complete", "aer", "ring", "directed_ring"} | pairs


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "profile, compute_ms: give one of them"),
        (["compute_ms=1"], "compute_ms: give parameters=, link_gbps="),
        (["profile=nothing.json"], "profile=nothing.json: cannot be read"),
        (["profile=pyproject.toml"], "profile=pyproject.toml: cannot be read"),
        (["profile=x", "link_gbps=1"], "link_gbps, latency_us: give both"),
    ],
)
def test_mistakes_are_answered_with_one_message(arguments, says):
    with pytest.raises(ValueError, match="^" + says.replace("(", r"\(")):
        advise.main(arguments)


def test_a_profile_is_measured_under_a_launcher_and_advises(tmp_path):
    path = tmp_path / "profile.json"
    shape = ["task=gpt2", "scale=smoke", "repeats=3", f"out={path}"]
    done = commands.run("scripts.bench", "profile", *shape, ranks=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(path)
    values = json.loads(path.read_text())
    assert (values["source"], values["world_size"], values["local_size"]) == ("measured", 2, 2)
    assert len(values["slowdown"]) == 2
    assert 0 < values["forward_ms"]["p10"] <= values["forward_ms"]["median"] <= values["forward_ms"]["p90"]
    assert {e["topology"] for e in values["exchanges"]} == {built.name for built in topology.feasible(2, 2)}
    assert all(e["size"] > 0 and not e["crosses"] and e["median"] > 0 for e in values["exchanges"])
    advise.main([f"profile={path}", f"out={tmp_path}/a.png"])
    assert read_profile(str(path)).network() is None


def test_exchanges_of_equal_size_differ_by_what_their_links_carry():
    built = topology.build("one_peer_exp", 8, 2)
    first, second = (set(exchange_keys(built.round(step), built.node_of)) for step in (0, 1))
    assert (first, second) == ({("peers", 1, True, 1.0)}, {("peers", 1, True, 2.0)})
