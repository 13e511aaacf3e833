"""Worlds that a topology can't serve, names and options that do not exist: each says what works."""

import re

import pytest

from decent_core import topology
from tests.support import topology_reference as reference


@pytest.mark.parametrize("name", [name for name in topology.names() if name != "file"])
def test_build_serves_exactly_the_worlds_of_the_table(name):
    for n in reference.WORLDS:
        if reference.served(name, n):
            topology.build(name, n)
        else:
            with pytest.raises(ValueError, match=rf"topology {name} with world_size={n}, local_size=1: .*must be"):
                topology.build(name, n)


@pytest.mark.parametrize(
    ("name", "world", "options", "says"),
    [
        ("alternating_ring", (7, 1), {}, "even (nearest: 6 and 8)"),
        ("one_peer_hypercube", (12, 4), {}, "power of two (nearest: 8 and 16)"),
        ("hypercube", (3, 1), {}, "power of two (nearest: 2 and 4)"),
        ("torus", (8, 1), {}, "square (nearest: 4 and 9)"),
        ("aer", (12, 4), {}, "number of nodes must be a power of two, at least 2 (2, 4, 8, ...), got 3"),
        ("aer", (4, 4), {}, "at least 2 (2, 4, 8, ...), got 1"),
        ("aer", (10, 4), {}, "local_size must divide world_size"),
        ("aer", (6, (3, 2, 1)), {}, "power of two, at least 2 (2, 4, 8, ...), got 3"),
        ("grid", (6, 1), {"rows": 4}, "rows must divide the number of workers (works: [1, 2, 3, 6]), got 4"),
        ("base_k", (6, 1), {"k": 0}, "must be at least 1, got 0"),
        ("equistatic", (6, 1), {"m": 6}, "m must be 1 .. 5 (world_size - 1), got 6"),
        ("ring", (0, 1), {}, "world_size must be at least 1, got 0"),
        ("ring", (4, 0), {}, "local_size must be at least 1, got 0"),
        ("ring", (4.0, 1), {}, "world_size must be an integer, got 4.0"),
        ("ring", (5, (2, 2)), {}, "local_size=[2, 2] has 4 workers, world_size=5; they must be equal"),
        ("ring", (4, (4, 0)), {}, "each node size in local_size must be at least 1, got 0"),
        ("base_k", (6, 1), {"k": "2"}, "option k must be int, got '2'"),
        ("base_k", (6, 1), {"k": True}, "option k must be int, got True"),
        ("grid", (6, 1), {"rows": 1.0}, "option rows must be int or null, got 1.0"),
        ("equistatic", (6, 1), {"kind": "x"}, "option kind must be 'd' or 'u', got 'x'"),
        ("equistatic", (6, 1), {"sed": 1}, "unknown option 'sed'; did you mean 'seed'? there are: m, seed, kind"),
        ("complete", (6, 1), {"k": 1}, "unknown option 'k'; there are: none"),
    ],
)
def test_build_refuses_with_the_topology_the_world_and_what_works(name, world, options, says):
    with pytest.raises(ValueError, match=rf"^topology {name} with world_size={world[0]}, .*{re.escape(says)}"):
        topology.build(name, *world, **options)


def test_build_names_the_closest_topology():
    with pytest.raises(
        ValueError, match=r"unknown topology 'one_peer_expp'; did you mean 'one_peer_exp'.*aer, .*torus"
    ):
        topology.build("one_peer_expp", 8)
    with pytest.raises(ValueError, match=r"unknown topology '\.\./ring'"):
        topology.options("../ring")


def test_names_and_options_are_those_of_the_definitions():
    undirected = {
        "complete",
        "ring",
        "alternating_ring",
        "one_peer_hypercube",
        "hypercube",
        "torus",
        "grid",
        "star",
        "aer",
    }
    directed = {"directed_ring", "one_peer_exp", "static_exp", "push_exp"}
    assert topology.names() == sorted(undirected | directed | {"base_k", "equistatic", "random_match", "file"})
    assert topology.options("equistatic") == {"m": None, "seed": 0, "kind": "d"}
    assert topology.options("ring") == {}
    assert all(len(topology.summary(name)) > 20 for name in topology.names())


def test_topologies_that_do_not_look_at_nodes_accept_any_layout():
    layouts = [1, 4, 5, 16, (4, 4, 2), [7, 3]]
    for layout in layouts:
        t = topology.build("ring", 10, layout)
        assert (t.matrix(0) == topology.build("ring", 10).matrix(0)).all()
        assert len(t.node_of) == 10
    assert topology.build("ring", 10, 4).node_of.tolist() == [0] * 4 + [1] * 4 + [2] * 2
    assert topology.build("ring", 10, [7, 3]).local_size == (7, 3)


def test_a_file_in_graphs_is_a_topology(tmp_path, monkeypatch):
    (tmp_path / "everyone_asks_the_next.py").write_text(
        '"""Each worker averages with the next one."""\n'
        "from decent_core.topology.make_rounds import circulant\n"
        "from decent_core.topology.schedule import Schedule, static\n"
        "from decent_core.topology.layout import ClusterLayout\n\n\n"
        "def schedule(layout: ClusterLayout, hop: int = 1) -> Schedule:\n"
        "    return static(circulant(layout.size, {0: 0.5, hop: 0.5}))\n"
    )
    monkeypatch.setattr(topology.graphs, "__path__", [*topology.graphs.__path__, str(tmp_path)])
    assert "everyone_asks_the_next" in topology.names()
    assert topology.options("everyone_asks_the_next") == {"hop": 1}
    assert topology.build("everyone_asks_the_next", 5, hop=2).matrix(0)[0].tolist() == [0.5, 0, 0.5, 0, 0]
