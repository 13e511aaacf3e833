"""Measured beside predicted, over a real shaped network. Needs Linux, root and iproute2."""

import json

import pytest

from decent_core.lab.link_bench import Options
from decent_core.lab.namespaces import megabits
from decent_core.lab.report import LINK_CELLS
from scripts import bench
from tests.support import ROOT, needs

COMPUTE_MS, BUCKET_KIB = 30.0, 256
#: a bucket over 20 Mbit/s; gossip sends four of them
MESSAGE_MS = BUCKET_KIB * 8.192 / 20


@needs.decent_dp
@needs.namespaces
def test_all_cells_are_measured_and_predicted(tmp_path, capfd):
    settings = ["workers=4", "nodes=2", "rates=[20mbit]", "forward_ms=10", "backward_ms=20", f"bucket_kib={BUCKET_KIB}"]
    assert bench.main(["network", *settings, "steps=4", "repeats=1", f"out={tmp_path}/n.png"]) == 0
    found = json.loads((tmp_path / "n.json").read_text())
    steps = {(m["method"], m["topology"]): m for m in found["measurements"] if "seconds" in m}
    assert set(steps) == set(LINK_CELLS)
    assert found["source"] == "measured"
    assert not {"out", "measured"} & found["options"].keys(), "a path says nothing about what was measured"
    # bound by the link; a ring of 4 sends 2 x 3/4 of the four buckets
    for cell, buckets in ((("awc", "complete"), 4 * 1.5), (("awc", "one_peer_exp"), 4)):
        assert 1000 * steps[cell]["seconds"] > 0.85 * 4 * MESSAGE_MS
        assert steps[cell]["bytes"] == buckets * BUCKET_KIB * 1024
    assert 1000 * steps["allreduce", "complete"]["seconds"] > COMPUTE_MS + 0.85 * MESSAGE_MS
    assert (tmp_path / "n.png").stat().st_size > 10_000
    assert (tmp_path / "n.md").read_text() in capfd.readouterr().out


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"nodes": 3}, "nodes=3: must be"),
        ({"rates": ("1gbit", "fast")}, "rates=fast: must be a rate"),
        ({"steps": 0}, "steps=0"),
        ({"out": "results/local/net.json"}, "must end in .png"),
        ({"load": "gpt2", "forward_ms": 1.0}, "are for load=sleep"),
    ],
)
def test_impossible_settings_are_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        Options(**settings)


def test_rates_are_read_as_tc_reads_them():
    assert [megabits(rate) for rate in ("500kbit", "50mbit", "1.5gbit")] == [0.5, 50, 1500]


@pytest.mark.parametrize("content", ["{", "{}", (ROOT / "results" / "measurements" / "bench.json").read_text()],
                         ids=("broken", "empty", "the other bench's"))  # fmt: skip
def test_what_is_not_this_benchs_file_is_refused(content, tmp_path):
    path = tmp_path / "given.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"^measured={path}: .*same bench has written"):
        bench.main(["network", f"measured={path}", f"out={tmp_path}/n.png"])


def test_the_committed_table_is_made_again_from_the_committed_measurements(tmp_path):
    committed = ROOT / "results" / "measurements" / "netbench.json"
    assert bench.main(["network", f"measured={committed}", f"out={tmp_path}/n.png"]) == 0
    assert (tmp_path / "n.md").read_text() == committed.with_suffix(".md").read_text()
