"""The image task through the real engine: batch normalisation in both worlds, resuming, evaluation."""

import numpy as np
import pytest
import torch

from decent_core import topology
from decent_core.engine.averaging import averaged
from decent_core.engine.virtual import VirtualCommunicator
from tests.support import engines, images
from tests.support.ranks import run_ranks

WORLD, STEPS = 4, 4


def run(world, method, name):
    """Parameters and BN buffers of the local workers after a few steps."""
    graph = topology.build(name, WORLD, 2)
    engine = engines.build_engine(world, images.task(WORLD), method, "accum_adam", graph, spread=0.01)
    engines.trajectory(engine, images.task(WORLD), STEPS)
    buffers = [[b.double().numpy().copy() for b in own] for own in engine.replicas.buffers]
    return engine.x.numpy().copy(), buffers


def rank_runs(rank, method, name):
    return run(engines.distributed_communicator(topology.build(name, WORLD, 2), method), method, name)


def ranks_run_both(rank):
    return [rank_runs(rank, *case) for case in (("awc", "aer"), ("allreduce", "complete"))]


def test_virtual_workers_equal_ranks_with_batch_norm():
    by_rank = run_ranks(ranks_run_both, WORLD)
    for number, case in enumerate((("awc", "aer"), ("allreduce", "complete"))):
        rows, buffers = run(VirtualCommunicator(WORLD), *case)
        for rank, results in enumerate(by_rank):
            np.testing.assert_allclose(results[number][0][0], rows[rank], rtol=1e-9, atol=1e-11)
            for ours, theirs in zip(results[number][1][0], buffers[rank], strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)
        means = [own[0] for own in buffers]  # running means of the first layer
        assert not np.allclose(means[0], means[1]), "statistics are a worker's own"


def trainer(folder, steps, **settings):
    graph = topology.build("aer", WORLD, 2)
    cadence = {"checkpoint_every": 5, "eval_every": 4, "log_every": 2, "precision": "fp32", **settings}
    return engines.make_trainer(
        VirtualCommunicator(WORLD), folder, images.task(WORLD), graph, "awc", "accum_adam", steps=steps, **cadence
    )[0]


def bits(engine) -> list[bytes]:
    """Every bit of the workers' parameters and buffers."""
    return [t.numpy().tobytes() for t in (engine.x, *(b for own in engine.replicas.buffers for b in own))]


def test_run_that_is_resumed_in_the_middle_of_an_epoch_ends_with_the_same_bits(tmp_path):
    """An epoch has 15 steps: the checkpoint of step 5 is in the first one, step 20 in the second."""
    whole = trainer(tmp_path / "whole", steps=20)
    expected = whole.run()
    part = trainer(tmp_path / "part", steps=20)
    part.stop.name = "a test"  # stops after the first log line
    assert part.run().status == "preempted"
    resumed = trainer(tmp_path / "part", steps=20)
    assert 0 < resumed.engine.step < 15
    assert resumed.run() == expected
    assert bits(resumed.engine) == bits(whole.engine)
    assert {"val_loss", "top1", "top5", "local_top1"} <= set(expected.metrics)


@pytest.mark.parametrize("policy", ["average", "recompute", "local"])
def test_evaluation_leaves_every_bit_of_parameters_and_statistics(tmp_path, policy):
    one = trainer(tmp_path, steps=3, batch_norm=policy)
    engines.trajectory(one.engine, images.task(WORLD), 3)
    before, bound = bits(one.engine), one.engine.replicas.bound
    averaged_metrics, local = one.evaluator.averaged_model(), one.evaluator.local_models()
    one.engine.replicas.bind(bound)
    assert bits(one.engine) == before
    assert 0 <= averaged_metrics["top1"] <= averaged_metrics["top5"] <= 100
    assert {name for name in local if name.startswith("local_")} >= {"local_val_loss", "local_top1", "local_top5"}


def test_averaged_models_accuracy_is_that_of_the_mean_over_all_images_at_once(tmp_path):
    one = trainer(tmp_path, steps=3)
    engines.trajectory(one.engine, images.task(WORLD), 3)
    shared = one.evaluator.averaged_model()
    whole = images.task(WORLD, validation_batch=90)
    with torch.no_grad(), averaged(one.engine) as model:
        model.eval()
        expected = whole.summarise([whole.evaluate(model, batch) for batch in whole.validation_batches()])
        model.train()
    assert len(whole.validation_batches()) == 1
    assert shared == pytest.approx(expected, rel=1e-5)
