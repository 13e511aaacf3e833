"""Measured beside predicted, over a real shaped network. Needs Linux, root and iproute2."""

import json
import os
import subprocess
import sys

import pytest

from decent_core.lab.namespaces import megabits
from decent_core.lab.net_report import CELLS
from scripts import netbench
from scripts.netbench import Options
from tests.support import ROOT, needs

COMPUTE_MS, BUCKET_KIB = 30.0, 256
#: a bucket over 20 Mbit/s; gossip sends four of them
MESSAGE_MS = BUCKET_KIB * 8.192 / 20


@needs.decent_dp
@needs.namespaces
def test_all_cells_are_measured_and_predicted(tmp_path):
    settings = ["workers=4", "nodes=2", "rates=[20mbit]", "forward_ms=10", "backward_ms=20", f"bucket_kib={BUCKET_KIB}"]
    command = [sys.executable, "-m", "scripts.netbench", *settings, "steps=4", "repeats=1", f"out={tmp_path}/n.png"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "n.json").read_text())
    steps = {(m["method"], m["topology"]): m for m in found["measurements"] if "seconds" in m}
    assert set(steps) == set(CELLS)
    assert found["source"] == "measured"
    assert not {"out", "measured"} & found["options"].keys(), "a path says nothing about what was measured"
    # bound by the link; a ring of 4 sends 2 x 3/4 of the four buckets
    for cell, buckets in ((("awc", "complete"), 4 * 1.5), (("awc", "one_peer_exp"), 4)):
        assert 1000 * steps[cell]["seconds"] > 0.85 * 4 * MESSAGE_MS
        assert steps[cell]["bytes"] == buckets * BUCKET_KIB * 1024
    assert 1000 * steps["allreduce", "complete"]["seconds"] > COMPUTE_MS + 0.85 * MESSAGE_MS
    assert (tmp_path / "n.png").stat().st_size > 10_000
    assert (tmp_path / "n.md").read_text() in done.stdout


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"nodes": 3}, "nodes=3: must be"),
        ({"rates": ("1gbit", "fast")}, "fast is no rate"),
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


@pytest.mark.parametrize("content", ["{", "{}", (ROOT / "results" / "figures" / "bench.json").read_text()],
                         ids=("broken", "empty", "the other bench's"))  # fmt: skip
def test_what_is_not_this_benchs_file_is_refused(content, tmp_path):
    path = tmp_path / "given.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"^measured={path}: .*same bench has written"):
        netbench.main([f"measured={path}", f"out={tmp_path}/n.png"])


def test_the_committed_table_is_made_again_from_the_committed_measurements(tmp_path):
    committed = ROOT / "results" / "figures" / "netbench.json"
    assert netbench.main([f"measured={committed}", f"out={tmp_path}/n.png"]) == 0
    assert (tmp_path / "n.md").read_text() == committed.with_suffix(".md").read_text()
