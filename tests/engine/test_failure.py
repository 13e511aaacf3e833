"""Hung and dead peers, models that differ, and that the exchange hides behind the computation."""

import os
import re
import signal
import statistics
import time

import numpy as np
import pytest
import torch

from decent_core import topology
from decent_core.engine.rank_context import ExchangeError
from tests.support import engines
from tests.support.ranks import run_ranks, start_ranks
from tests.support.toy import ToyTask


def step_until_error(rank, folder, method, name, world_size, timeout):
    """Train until an exchange fails; returns the message and the seconds from the last completed step to it."""
    graph = topology.build(name, world_size, 2)
    world = engines.distributed_communicator(graph, method, timeout)
    task = ToyTask(world_size=world_size)
    engine = engines.build_engine(world, task, method, "adamw", graph)
    for _ in range(10_000):
        started = time.monotonic()
        try:
            engines.train_step(engine, task)
        except ExchangeError as error:
            return str(error), time.monotonic() - started
        time.sleep(0.01)
        (folder / f"{rank}").write_text(str(engine.step))
    return "", 0.0


@pytest.mark.parametrize(
    ("method", "name", "operation"),
    [
        ("awc", "complete", r"group average between ranks \[0, 1, 2, 3\]"),
        ("awc", "ring", r"exchange with peers between ranks"),
        ("atc", "aer", r"(group average|exchange with peers) between ranks"),
        ("allreduce", "complete", r"gradient all-reduce between ranks \[0, 1, 2, 3\]"),
    ],
)
def test_hung_rank_ends_in_an_error_that_names_operation_and_ranks(tmp_path, method, name, operation):
    timeout = 3.0
    ranks = start_ranks(step_until_error, 4, tmp_path, method, name, 4, timeout, group_timeout=timeout)
    end = time.monotonic() + 60
    while not (tmp_path / "3").exists() or int((tmp_path / "3").read_text() or 0) < 3:
        assert time.monotonic() < end, "the ranks did not start"
        time.sleep(0.01)
    os.kill(ranks.processes[3].pid, signal.SIGSTOP)
    outcomes = ranks.collect(seconds=6 * timeout, waited_for=3)
    for rank, (ok, value) in enumerate(outcomes[:3]):
        assert ok, value
        message, seconds = value
        assert re.search(rf"step \d+: {operation}", message), message
        assert f"rank {rank} " in message and "time-out 3 s" in message
        assert seconds < 4 * timeout


def build_different_models(rank):
    graph = topology.build("ring", 3)
    task = ToyTask(batch_norm=rank == 1)
    with pytest.raises(ValueError, match=r"workers \[1\] built another model than worker 0"):
        engines.build_engine(engines.distributed_communicator(graph), task, "awc", "sgd", graph)


def test_other_model_on_one_rank_is_an_error_on_every_rank():
    run_ranks(build_different_models, 3)


def start_from_rank_zero(rank):
    """Weights, frozen weights and buffers after building; every rank had drawn its own."""
    torch.manual_seed(rank)
    graph = topology.build("ring", 3)
    task = ToyTask(batch_norm=True)
    real = task.build_model

    def build_model():
        torch.manual_seed(rank)
        model = real()
        model.norm.running_mean.fill_(rank)
        return model

    task.build_model = build_model
    engine = engines.build_engine(engines.distributed_communicator(graph), task, "awc", "sgd", graph, spread=0.0)
    state = engine.model.state_dict()
    return {name: tensor.detach().numpy().copy() for name, tensor in state.items()}


def test_all_ranks_start_from_rank_zero():
    first, *others = run_ranks(start_from_rank_zero, 3)
    assert "frozen" in first and "norm.running_mean" in first
    for other in others:
        for name, value in first.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)


def exchange_waits(rank):
    """Median seconds of waiting for an exchange of 8 MB, without and beside 250 ms that take no processor."""
    graph = topology.build("one_peer_exp", 4)
    world = engines.distributed_communicator(graph, bucket_mib=4.0)
    rows, waits = torch.zeros(1, 2_000_000), {0.0: [], 0.25: []}
    for step in range(20):
        compute_seconds = 0.25 * (step % 2)
        pending = world.start_mix(rows, graph.round(step // 2), f"step {step}")
        time.sleep(compute_seconds)
        start = time.perf_counter()
        pending.wait()
        waits[compute_seconds].append(time.perf_counter() - start)
    return [statistics.median(times[2:]) for times in waits.values()]


def test_exchange_runs_beside_the_computation():
    """What is to be waited for without computing is nearly gone beside it."""
    for alone, beside in run_ranks(exchange_waits, 4):
        assert beside < 0.2 * alone, (beside, alone)


def mixed_rows(rank, bucket_mib):
    """This rank's row after the first rounds of every topology that serves 4 workers, by name."""
    found = {}
    for name in topology.names():
        if name != "file":
            graph = topology.build(name, 4, 2)
            world = engines.distributed_communicator(graph, bucket_mib=bucket_mib)
            rows = torch.arange(301.0, dtype=torch.float64)[None] * (rank + 1) ** 2
            for step in range(min(graph.period, 4)):
                rows = world.start_mix(rows, graph.round(step), "test").wait().clone()
            found[name] = rows[0].numpy()
    return found


@pytest.mark.parametrize("bucket_mib", [25, 1e-4])
def test_every_topology_mixes_by_its_matrix_on_real_ranks(bucket_mib):
    """Also where workers have different numbers of neighbours, so that they receive different amounts (star, grid)."""
    ranks = run_ranks(mixed_rows, 4, bucket_mib)
    for name in ranks[0]:
        graph = topology.build(name, 4, 2)
        expected = np.arange(301.0)[None] * (np.arange(4)[:, None] + 1) ** 2
        for step in range(min(graph.period, 4)):
            expected = graph.matrix(step) @ expected
        np.testing.assert_allclose([rank[name] for rank in ranks], expected, rtol=1e-13, err_msg=name)


def awc_buffers(rank, name):
    graph = topology.build(name, 4, 2)
    world = engines.distributed_communicator(graph, bucket_mib=25)
    rows = torch.randn(1, 100_003)
    for step in range(graph.period):
        world.start_mix(rows, graph.round(step), "test").wait()
    exchange = world.exchange
    buffers = [*exchange.results.values(), exchange.received]
    return sum(b.numel() for b in buffers if b is not None) / rows.numel()


@pytest.mark.parametrize("name", ["complete", "ring", "static_exp", "star", "aer", "one_peer_exp"])
def test_exchange_buffers_take_at_most_twice_the_parameters(name):
    assert max(run_ranks(awc_buffers, 4, name)) <= 2.001
