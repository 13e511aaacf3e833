"""Exchanges that start in the step before: the same bits, nothing left on its way, and no rank that waits for ever."""

import threading

import numpy as np
import pytest
import torch

from decent_core import topology
from decent_core.engine.chunks import ReadyPrefix
from tests.support import engines
from tests.support.ranks import run_ranks
from tests.support.toy import ToyTask

STEPS = 7


def all_ways(rank, name, optimizer, clip_norm):
    """Parameters after each step: updates after the backward pass, in it, and with exchanges ahead of their steps."""
    graph, task = topology.build(name, 4, 2), ToyTask(world_size=4)
    found, sent = [], []
    for in_backward, ahead in ((False, False), (True, False), (True, True)):
        world = engines.distributed_communicator(graph)
        engine = engines.build_engine(world, task, "awc", optimizer, graph, clip_norm=clip_norm)
        assert engine.updates_in_backward == (clip_norm is None)
        engine.updates_in_backward &= in_backward
        rows = []
        for step in range(STEPS):
            engines.train_step(engine, task, ahead and step not in (3, STEPS - 1))
            assert (engine.exchanges.ahead is not None) == (ahead and step not in (3, STEPS - 1))
            rows.append(engine.x.clone())
            sent.append(engine.bytes_sent)
        found.append(torch.cat(rows).numpy())
    assert sent == sent[:STEPS] * 3, "bytes count in the step that they are for"
    return found


@pytest.mark.parametrize("name", ["complete", "aer", "one_peer_exp", "ring", "star"])
@pytest.mark.parametrize(("optimizer", "clip_norm"), [("accum_adamw", 0.1), ("sgd", None)])
def test_running_ahead_gives_the_same_bits(name, optimizer, clip_norm):
    for after, *others in run_ranks(all_ways, 4, name, optimizer, clip_norm):
        for other in others:
            np.testing.assert_array_equal(after, other)
        assert (after[0] != after[-1]).any()


def updated_early(rank):
    """How many parameters are still to update when the backward pass is over; all exchanges are in time."""
    graph = topology.build("complete", 2)
    world, task = engines.distributed_communicator(graph), ToyTask(world_size=2)
    engine = engines.build_engine(world, task, "awc", "adamw", graph)
    left = []
    for step in range(3):
        engine.begin_step(ahead=step < 2)
        engine.mixing.wait()
        batch = task.batch(step, rank)
        with engine.as_worker(0) as module:
            engine.backward(0, sum(p.square().sum() for p in module.parameters()) + 0 * task.loss_sum(module, batch))
        left.append(engine.pipelined.updated)
        engine.end_step()
    return left, len(engine.replicas.layout.parameters)


def test_parameters_are_updated_in_the_backward_pass():
    for left, count in run_ranks(updated_early, 2):
        assert all(number < count for number in left), (left, count)


def arrives_before_its_step(rank):
    """Whether the next step's exchange ends although no rank has begun that step."""
    graph, task = topology.build("ring", 4), ToyTask(world_size=4)
    engine = engines.build_engine(engines.distributed_communicator(graph), task, "awc", "adamw", graph)
    engines.train_step(engine, task, ahead=True)
    _, _, pending = engine.exchanges.ahead
    mixed = pending.wait()[0].clone()
    rows = torch.cat(engine.communicator.gather([engine.x], "test"))
    return float((mixed - torch.from_numpy(graph.matrix(1)[rank]) @ rows).abs().max())


def test_exchange_ahead_needs_no_further_step():
    assert max(run_ranks(arrives_before_its_step, 4)) < 1e-12


def update_that_fails(rank, name):
    """What comes out of a step whose update breaks, and of the exchange that waits for it."""
    graph, task = topology.build(name, 2), ToyTask(world_size=2)
    world = engines.distributed_communicator(graph, bucket_mib=1e-4)
    engine = engines.build_engine(world, task, "awc", "adamw", graph)
    engines.train_step(engine, task, ahead=True)
    engine.replicas.optimizers[0].register_step_pre_hook(lambda *_: next(iter(())))
    try:
        engines.train_step(engine, task, ahead=True)
    except (StopIteration, RuntimeError) as error:
        _, _, pending = engine.exchanges.ahead
        try:
            pending.wait()
        except RuntimeError as consequence:
            return type(error).__name__, str(consequence)
    return None


@pytest.mark.parametrize("name", ["complete", "directed_ring"])  # queued with gloo, and sent by a thread
def test_failed_update_ends_the_exchange_that_waits_for_it(name):
    for error, consequence in run_ranks(update_that_fails, 2, name, seconds=30):
        assert error in ("StopIteration", "RuntimeError")
        assert "has failed" in consequence


def test_only_a_method_that_mixes_the_model_first_runs_ahead():
    for method, expected in {"awc": True, "atc": False, "da": False}.items():
        assert run_ranks(runs_ahead, 2, method) == [expected] * 2


def runs_ahead(rank, method):
    graph, task = topology.build("complete", 2), ToyTask(world_size=2)
    engine = engines.build_engine(engines.distributed_communicator(graph), task, method, "sgd", graph)
    engines.train_step(engine, task, ahead=True)
    return engine.exchanges.ahead is not None


def test_prefix_lets_through_what_is_there():
    prefix, passed = ReadyPrefix(), []
    consumer = threading.Thread(target=lambda: [(prefix.wait_for(n), passed.append(n)) for n in (1, 3, 4, 9)])
    consumer.start()
    prefix.mark_ready(3)
    prefix.mark_ready(4)
    consumer.join(0.5)
    assert passed == [1, 3, 4]
    prefix.mark_ready(9)
    consumer.join(5)
    assert passed == [1, 3, 4, 9]
    prefix.fail()
    with pytest.raises(RuntimeError, match="has failed"):
        prefix.wait_for(10)
