"""`python -m scripts.topology`, run as a user runs it; and the words that it uses."""

import subprocess
from pathlib import Path

import pytest
from matplotlib import image

from decent_core import topology
from decent_core.report.round_text import count_round, describe_round, weight_in_words, workers_in_words
from scripts import topology as script
from tests.support import ROOT, commands


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return commands.run("scripts.topology", *arguments, cwd=cwd, COLUMNS="120", PYTHONPATH=str(ROOT))


def test_script_prints_rounds_and_properties_and_draws(tmp_path):
    done = run("name=aer", "world_size=16", "local_size=4", "parameters=124M", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for part in [
        "16 workers on 4 nodes of 4",
        "{8-15}",
        "0, the exact mean",
        "4 (5 if begun in the worst round)",
        "868 MB",
    ]:
        assert part in done.stdout
    picture = tmp_path / "results/local/topology/aer_16_4.png"
    assert done.stdout.rstrip().endswith("picture: results/local/topology/aer_16_4.png")
    height, width, _ = image.imread(picture).shape
    assert width > height > 300


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["name=aer", "world_sise=16"], "world_sise: no such key; did you mean world_size?"),
        (["name=aerr", "world_size=16"], "unknown topology 'aerr'; did you mean 'aer'?"),
        (["name=base_k", "world_size=6", "k=two"], "option k must be int, got 'two'"),
        (["name=torus", "world_size=8"], "topology torus with world_size=8"),
        (["name=ring", "world_size=8", "bytes=4", "parameters=1"], "parameters, bytes: give one of them"),
        (["world_size=8"], "name: a value is missing; choose one of aer,"),
    ],
)
def test_script_answers_a_mistake_with_one_message_and_status_2(arguments, says):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_script_helps():
    done = run("name=equistatic", "--help")
    assert done.returncode == 0
    assert "kind=d" in done.stdout
    listing = run("--help").stdout
    assert all(name in listing for name in topology.names())


def test_script_does_not_draw_a_large_world_unasked(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    script.main(["name=complete", "world_size=100000"])
    printed = capsys.readouterr().out
    assert "not drawn" in printed
    assert "not computed beyond" in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in topology.names() if name != "file"])
@pytest.mark.parametrize("world", ["world_size=1", "world_size=16 local_size=4", "world_size=16 local_size=[3,5,4,4]"])
def test_script_shows_and_draws_every_topology(name, world, capsys, tmp_path):
    script.main([f"name={name}", *world.split(), f"out={tmp_path}/picture.png"])
    assert "rounds to consensus" in capsys.readouterr().out
    assert (tmp_path / "picture.png").stat().st_size > 1000


def described(name: str, n: int, step: int = 0, local_size: int = 1, **options) -> str:
    return describe_round(topology.build(name, n, local_size, **options).round(step))


def test_rounds_in_words():
    assert described("aer", 8, local_size=2) == "2 groups of 4: {4-7}" or "group of 4" in described(
        "aer", 8, local_size=2
    )
    assert described("one_peer_exp", 6) == "every worker i takes 1/2 of itself, 1/2 of worker i+1"
    assert described("ring", 8) == "every worker i takes 1/3 of itself, 1/3 of worker i-1, 1/3 of worker i+1"
    assert described("alternating_ring", 4, 1) == "pairs 0\u20133  1\u20132"
    assert described("base_k", 3, 1) == "0 takes 1/3 of itself, 2/3 of 2\n2 takes 1/3 of itself, 2/3 of 0\n1 alone"
    assert described("grid", 3).startswith("0 takes 2/3 of itself, 1/3 of 1\n1 takes 1/3 of itself, 1/3 of 0, 2")
    assert described("random_match", 101).endswith("alone")
    assert "(50 in all)" in described("random_match", 101)


def test_rounds_counted_in_words():
    assert count_round(topology.build("aer", 16, 4).round(0)) == "1 group of 8, 2 groups of 4"
    assert count_round(topology.build("base_k", 5).round(2)) == "1 pair, weight 4/5, 3 alone"
    assert count_round(topology.build("torus", 9).round(0)) == "each takes 1/5 of 4 others"
    assert count_round(topology.build("directed_ring", 5).round(0)) == "i takes 1/2 of itself, 1/2 of i+1"
    assert count_round(topology.build("star", 5).round(0)) == "each takes 1/5 of up to 4 others"


def test_numbers_in_words():
    assert [weight_in_words(w) for w in (0.5, 1 / 3, 1.0, 0.123456)] == ["1/2", "1/3", "1", "0.123"]
    assert workers_in_words([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7, 8"
