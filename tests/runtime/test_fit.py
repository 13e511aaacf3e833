"""The runtime model inverted: known parameters are found again, published data are explained, ignorance is shown."""

import pytest

from decent_core.report.scaling_figure import fit_cluster, read_clusters
from decent_core.runtime import Workload, allreduce_time, gossip_time
from decent_core.runtime.fit import fit
from scripts import runtime
from tests.support import ROOT

B = 7


def work(compute, fixed, n):
    return Workload(B, compute / 3 / n / B, 2 * compute / 3 / n / B, fixed / B)


def synthetic(compute, fixed, gamma, omega):
    workers = (4, 8, 16, 32, 64)
    allreduce = {n: allreduce_time(work(compute, fixed, n), gamma) for n in workers}
    return allreduce, {"pairs": {n: gossip_time(work(compute, fixed, n), omega * gamma) for n in workers}}


def test_known_parameters_are_found_again():
    found = fit(*synthetic(2000.0, 12.0, 14.0, 0.5), B)
    assert found.rms < 0.01
    assert found.compute.value == pytest.approx(2000, rel=0.03)
    assert found.fixed.value == pytest.approx(12, abs=3)
    assert found.gamma.value == pytest.approx(14, rel=0.05)
    assert found.omega["pairs"].value == pytest.approx(0.5, abs=0.05)
    assert found.compute.low <= 2000 <= found.compute.high


def test_omega_of_a_hidden_exchange_is_known_only_from_above():
    found = fit(*synthetic(2000.0, 12.0, 14.0, 0.2), B)
    assert found.omega["pairs"].low < 0.05
    assert found.omega["pairs"].high < 0.6


def test_published_clusters_are_explained_within_ten_per_cent():
    clusters = read_clusters(ROOT / "results" / "published.csv")
    assert [len(series) for series in clusters.values()] == [4, 4, 4]
    for name, series in clusters.items():
        with_fixed, without = fit_cluster(series)
        assert with_fixed.rms <= without.rms < 0.11, name
    ethernet, _ = fit_cluster(clusters["4xA40 25Gb/s Ethernet"])
    assert ethernet.omega["aer"].high < ethernet.omega["one_peer_hypercube"].low  # AER crosses nodes less


def test_door_draws_both_figures_and_writes_the_committed_table(capsys, tmp_path):
    runtime.main(["figures", f"folder={tmp_path}", "iterations=2"])
    printed = capsys.readouterr().out
    for name in ("runtime_model.png", "runtime_scaling.png"):
        assert (tmp_path / name).stat().st_size > 10_000
        assert f"{tmp_path}/{name}\n" in printed
    table = (tmp_path / "runtime_scaling.md").read_text()
    assert table in printed
    assert table.count("All-Reduce") == 9
    committed = ROOT / "results" / "measurements" / "runtime_scaling.md"
    assert table == committed.read_text(), "make figure-runtime writes it again"
