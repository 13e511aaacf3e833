"""Translation on the engine: real ranks and virtual workers agree, and a killed run continues exactly."""

import numpy as np
import pytest
import torch

from decent_core import topology
from decent_core.engine.virtual import VirtualCommunicator
from tests.support import engines, needs, wmt14
from tests.support.ranks import run_ranks

WORLD = 4
QUIET = {"eval_every": 0, "checkpoint_every": 0, "log_every": 4}


def train(world, folder, places, method="awc", name="aer", fail_at=None, model="marian", **cadence):
    """Final metrics and the workers' parameters; `fail_at`: the step whose batch can't be had."""
    task = wmt14.build_from(places, WORLD, test_pairs=8, decode_every_evaluation=True, model=model)
    batch = task.batch

    def batch_until(step, worker):
        if step == fail_at:
            raise RuntimeError("killed")
        return batch(step, worker)

    task.batch = batch_until
    graph = topology.build(name, WORLD, 2)
    trainer, _, _ = engines.make_trainer(world, folder, task, graph, method, "accum_adam", **{**QUIET, **cadence})
    outcome = trainer.run()
    return outcome.metrics, trainer.engine.x.numpy().copy(), task.notes


def rank_trains(rank, folder, places, method, name):
    graph = topology.build(name, WORLD, 2)
    return train(engines.distributed_communicator(graph, method), folder, places, method, name, steps=4)


@pytest.mark.parametrize(
    ("method", "name"), [("awc", "aer"), pytest.param("allreduce", "complete", marks=pytest.mark.slow)]
)
def test_ranks_and_virtual_workers_agree(tmp_path, method, name):
    metrics, rows, notes = train(
        VirtualCommunicator(WORLD), tmp_path / "virtual", wmt14.places(), method, name, steps=4
    )
    patience = {"seconds": 200, "group_timeout": 120}  # each rank imports transformers
    ranks = run_ranks(rank_trains, WORLD, tmp_path / "ranks", wmt14.places(), method, name, **patience)
    for rank, (theirs, row, _) in enumerate(ranks):
        np.testing.assert_allclose(row[0], rows[rank], rtol=1e-9, atol=1e-9)
        assert theirs == pytest.approx(metrics, rel=1e-9)
    assert notes["bleu"].startswith("sacreBLEU nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert metrics["val_perplexity"] == pytest.approx(np.exp(metrics["val_loss"]))
    assert {"bleu", "bleu_tokenised", "local_bleu"} <= set(metrics)


def test_run_killed_within_an_epoch_continues_exactly(tmp_path):
    options = {"steps": 12, "checkpoint_every": 2, "eval_every": 6}
    metrics, rows, _ = train(VirtualCommunicator(WORLD), tmp_path / "whole", wmt14.places(), **options)
    with pytest.raises(RuntimeError, match="killed"):
        train(VirtualCommunicator(WORLD), tmp_path / "killed", wmt14.places(), fail_at=7, **options)
    resumed, again, _ = train(VirtualCommunicator(WORLD), tmp_path / "killed", wmt14.places(), **options)
    assert np.array_equal(again, rows)
    assert resumed == metrics


@needs.fairseq
def test_fairseqs_model_trains_on_the_engine(tmp_path):
    metrics, rows, _ = train(VirtualCommunicator(WORLD), tmp_path, wmt14.places(), model="fairseq_transformer", steps=3)
    assert rows.shape[0] == WORLD
    assert not np.array_equal(rows[0], rows[1])
    assert {"val_loss", "bleu", "local_bleu"} <= set(metrics)


def test_evaluation_does_not_depend_on_the_batches_of_decoding():
    task, model = wmt14.trained()
    other = wmt14.build(decode_batch=24, validation_batch_tokens=100, width=32, feed_forward=64, dropout=0.0)
    with torch.no_grad():
        results = [of.summarise([of.evaluate(model, b) for b in of.final_batches()]) for of in (task, other)]
    assert results[0] == pytest.approx(results[1], rel=1e-5)
    with torch.no_grad():
        parts = [task.evaluate(model, b) for b in task.final_batches()]
    samples = task.outputs(parts)
    assert len(samples) == 5
    assert samples[0]["reference"] == wmt14.help_pairs()["test"][0][1]
    assert samples[0]["source"] == wmt14.help_pairs()["test"][0][0]
