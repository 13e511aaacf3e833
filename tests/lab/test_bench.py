"""The step-time bench for real, on the loopback and with paced connections; and decent-dp as the engine's oracle."""

import json
import sys
import time

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from decent_core import topology
from decent_core.engine.distributed import DistributedCommunicator
from decent_core.engine.engine import Engine
from decent_core.engine.settings import DistributedSettings
from decent_core.lab import step_bench
from decent_core.lab.contestants import REFERENCE_NAMES
from decent_core.lab.pacing import bytes_a_second, pace_connections
from decent_core.lab.report import step_table
from decent_core.methods import METHODS
from scripts import bench
from tests.support import ROOT, needs
from tests.support.ranks import run_ranks

LR, STEPS, BUCKET_BYTES = 0.1, 9, 512
MEBIBYTE = 2**20


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 15), nn.Tanh(), nn.Linear(15, 3)).double()


def batch(step: int, rank: int) -> torch.Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(100 * step + rank), dtype=torch.float64)


def sgd(parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=LR, momentum=0.9)


def flat(module: nn.Module) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])


class Skipping:
    """A topology of ours in the order in which decent-dp goes through it: after the first exchange one is left out."""

    def __init__(self, built):
        self.built = built

    def __getattr__(self, name):
        return getattr(self.built, name)

    def round(self, step: int):
        return self.built.round(step if step < 2 else step + 1)


def both(rank: int, name: str, local_size: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Parameters after each step from the second on, of decent-dp and of our engine."""
    from decent_dp.ddp import DecentralizedDataParallel

    theirs, ours = model(), model()
    wrapped = DecentralizedDataParallel(
        theirs,
        lambda named: sgd([p for _, p in named]),
        topology=REFERENCE_NAMES[name],
        bucket_size_in_mb=BUCKET_BYTES / MEBIBYTE,
        _local_world_size=local_size,
    )
    built = Skipping(topology.build(name, dist.get_world_size(), local_size))
    settings = DistributedSettings("distributed", 30, BUCKET_BYTES / MEBIBYTE, False)
    world = DistributedCommunicator(settings, built, torch.device("cpu"))
    engine = Engine(ours, world, METHODS["awc"](), built, lambda m: sgd(m.parameters()), piecewise=True, seed=1)
    found: tuple[list, list] = ([], [])
    for step in range(STEPS):
        wrapped(batch(step, rank)).square().mean().backward()
        if step:  # decent-dp makes its first update at the start of its second step
            found[0].append(flat(theirs))
    for work in wrapped._comm_ops:
        work.wait()
    for step in range(STEPS):
        engine.begin_step(ahead=step + 1 < STEPS)
        with engine.as_worker(0) as module:
            engine.backward(0, module(batch(step, rank)).square().mean())
        engine.end_step()
        if step:
            found[1].append(flat(ours))
    return found


def all_of_both(rank: int) -> list:
    return [both(rank, name, 2) for name in REFERENCE_NAMES]


@needs.decent_dp
def test_engine_and_decent_dp_take_the_same_steps():
    results = run_ranks(all_of_both, 4, seconds=150)
    for number, name in enumerate(REFERENCE_NAMES):
        for rank in results:
            theirs, ours = rank[number]
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12, err_msg=name)
        assert len({rank[number][1][1].tobytes() for rank in results}) > 1, "the workers' models never differ"


@needs.decent_dp
@pytest.mark.parametrize(("world_size", "local_size"), [(8, 2), (4, 2), (4, 1)])
@pytest.mark.parametrize("name", REFERENCE_NAMES)
def test_reference_names_mean_the_same_schedule(name, world_size, local_size):
    from decent_dp.topo import TopologyReg

    theirs = object.__new__(TopologyReg.registry[REFERENCE_NAMES[name]])
    theirs._world_size, theirs._local_world_size, theirs._n_nodes = world_size, local_size, world_size // local_size
    ours = topology.build(name, world_size, local_size)
    for step, edges in enumerate(theirs._get_topo_edges()):
        wanted = np.zeros((world_size, world_size))
        for edge in edges:
            wanted[np.ix_(edge.ranks, edge.ranks)] = 1 / len(edge.ranks)
        np.testing.assert_allclose(ours.matrix(step), wanted)


def paced_exchange(rank: int) -> float:
    """Seconds that a pair needs for a mebibyte each way at 40 Mbit/s."""
    built = topology.build("complete", 2)
    world = DistributedCommunicator(DistributedSettings("distributed", 30, 1.0, False), built, torch.device("cpu"))
    rows = torch.zeros(1, MEBIBYTE // 4)
    world.start_mix(rows, built.round(0), "test").wait()
    assert pace_connections(bytes_a_second("40mbit")) > 0
    dist.barrier()
    start = time.perf_counter()
    world.start_mix(rows, built.round(0), "test").wait()
    return time.perf_counter() - start


@pytest.mark.skipif(sys.platform != "linux", reason="connections are paced on Linux")
def test_connections_are_paced_without_root():
    wanted = MEBIBYTE * 8 / 40e6
    assert 0.8 * wanted < max(run_ranks(paced_exchange, 2)) < 2 * wanted


@needs.decent_dp
@pytest.mark.slow
def test_bench_measures_without_shaping(tmp_path, capfd, monkeypatch):
    def impossible():
        raise ValueError("no iproute2")

    monkeypatch.setattr(step_bench, "check_possible", impossible)
    settings = ["rates=[200mbit]", "steps=2", "repeats=2", "forward_ms=2", "backward_ms=4", "bucket_kib=64"]
    assert bench.main([*settings, "memory=false", f"out={tmp_path}/b.json"]) == 0
    printed = capfd.readouterr()
    assert printed.err.startswith("no iproute2; connections are paced instead")
    record = json.loads((tmp_path / "b.json").read_text())
    assert {entry["rate"] for entry in record["times"]} == {"loopback", "200mbit"}
    assert {(entry["method"], entry["topology"]) for entry in record["times"]} >= set(step_bench.GOSSIP)
    assert "was paced to its rate" in (tmp_path / "b.md").read_text()
    assert (tmp_path / "b.md").read_text() in printed.out


def entries(rate: str, **seconds: list[float]) -> list[dict]:
    common = {"load": "sleep", "rate": rate, "topology": "complete", "workers": 4, "local_size": 2}
    return [
        {**common, "repeat": repeat, "method": name.replace("_", "-"), "parameter_bytes": 10**6, "seconds": value}
        for name, values in seconds.items()
        for repeat, value in enumerate(values)
    ]


def lines(times: list[dict]) -> list[list[str]]:
    record = {"times": times, "memory": [], "shaped": True, "options": {"repeats": 2}}
    rows = [line for line in step_table(record).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_table_compares_times_of_the_same_repeat():
    times = entries("loopback", none=[1, 2], ddp=[1, 2], allreduce=[1.5, 3], awc=[1.02, 2.04], decent_dp=[1.0, 2.1])
    by_aim = {line[3]: line[4:] for line in lines(times) if line[3]}
    assert by_aim["torch DDP"] == ["1.500 (1.500 to 1.500)", "within 1%", "**no**"]
    assert by_aim["no exchange"] == ["1.020 (1.020 to 1.020)", "≤ 1.03", "yes"]
    assert by_aim["decent-dp"] == ["0.996 (0.971 to 1.020)", "not slower in all repeats", "yes"]


def test_table_takes_the_link_for_the_bound_where_it_is_slower():
    """A ring over four workers sends 1.5 MB of the parameters' 1 MB: 1.255 s at 10 Mbit/s with the frames around it."""
    bound = 1.5e6 * 8 / 10e6 * 1514 / 1448
    times = entries("10mbit", none=[0.1, 0.1], ddp=[2, 2], allreduce=[2, 2], awc=[1.1 * bound] * 2, decent_dp=[2, 2])
    found = next(line for line in lines(times) if line[3].startswith("max("))
    assert found[4:] == ["1.100 (1.100 to 1.100)", "≤ 1.05", "**no**"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rates": ("fast",)}, "rates=fast: must be a rate"),
        ({"out": "b.md"}, "must end in .json"),
        ({"repeats": 0}, "repeats=0"),
    ],
)
def test_impossible_settings_are_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        step_bench.Options(**settings)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "does not hold"),
        ("{}", "does not hold"),
        ('{"schema": 1, "options": {}}', "does not hold"),
        (
            (ROOT / "results" / "measurements" / "netbench.json").read_text(),
            "does not hold this bench's times, memory, shaped",
        ),
    ],
    ids=("missing", "broken", "list", "empty", "half", "the other bench's"),
)
def test_what_is_not_this_benchs_file_is_refused(content, says, tmp_path):
    path = tmp_path / "given.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=f"^measured={path}: {says}.*same bench has written"):
        bench.main([f"measured={path}", f"out={tmp_path}/b.json"])


def test_the_committed_table_is_made_again_from_the_committed_measurements(tmp_path):
    committed = ROOT / "results" / "measurements" / "bench.json"
    assert bench.main([f"measured={committed}", f"out={tmp_path}/b.json"]) == 0
    assert (tmp_path / "b.md").read_text() == committed.with_suffix(".md").read_text()
