"""The loop: divergence, stop signals, evaluation, mixed precision, and what it logs."""

import dataclasses
import math
import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from decent_core import topology
from decent_core.engine.averaging import averaged, consensus_distance
from decent_core.engine.virtual import VirtualCommunicator, mix_rows
from decent_core.system.signals import StopRequest
from tests.support import engines
from tests.support.ranks import run_ranks
from tests.support.toy import ToyTask

RING = topology.build("ring", 4)


def trainer_on(tmp_path, task=None, world=None, graph=RING, method="awc", optimizer="adamw", **settings):
    world = world or VirtualCommunicator(graph.world_size)
    task = task or ToyTask(seed=1, world_size=world.size)
    return engines.make_trainer(world, tmp_path / "c", task, graph, method, optimizer, **settings)


def test_non_finite_loss_ends_the_run_with_the_step_named(tmp_path):
    trainer, log, _ = trainer_on(tmp_path, ToyTask(seed=1, poison_step=7))
    outcome = trainer.run()
    assert (outcome.status, outcome.step) == ("diverged", 7)
    assert "step 7" in outcome.message
    assert [entry["step"] for entry in log] == [5, 10]
    assert math.isnan(log[-1]["train_loss"])


def test_patience_counts_consecutive_losses(tmp_path):
    """One poisoned batch spoils the parameters for good, so the run ends `patience` steps later, naming the first."""
    trainer, log, _ = trainer_on(tmp_path, ToyTask(seed=1, poison_step=7), diverged_patience=6)
    outcome = trainer.run()
    assert (outcome.status, outcome.step, log[-1]["step"]) == ("diverged", 7, 15)


def test_losses_that_are_lost_at_the_end_are_no_result_however_patient_the_run(tmp_path):
    trainer, log, _ = trainer_on(tmp_path, ToyTask(seed=1, poison_step=18), steps=20, diverged_patience=6)
    outcome = trainer.run()
    assert (outcome.status, outcome.step, outcome.metrics) == ("diverged", 18, {})
    assert {entry["kind"] for entry in log} == {"train"}


def test_model_that_the_last_update_has_spoilt_is_no_result(tmp_path):
    trainer, _, _ = trainer_on(tmp_path, steps=3)
    trainer.engine.replicas.update = lambda index, clip_norm: trainer.engine.x.fill_(math.nan)
    trainer.settings = dataclasses.replace(trainer.settings, steps=1)
    outcome = trainer.run()
    assert (outcome.status, outcome.metrics) == ("diverged", {})
    assert "val_loss is not finite" in outcome.message


def diverge_on_one_rank(rank, tmp_path):
    graph = topology.build("ring", 3)
    trainer, _, _ = trainer_on(tmp_path, ToyTask(seed=1, poison_step=7), engines.distributed_communicator(graph), graph)
    return trainer.run()


def test_divergence_of_one_rank_ends_all(tmp_path):
    outcomes = run_ranks(diverge_on_one_rank, 3, tmp_path)
    assert {(o.status, o.step) for o in outcomes} == {("diverged", 7)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_stop_signal_saves_and_the_run_continues_exactly(tmp_path, number):
    before = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGUSR1)}
    whole, whole_log, _ = trainer_on(tmp_path / "whole", eval_every=4)
    expected = whole.run()
    try:
        trainer, first_log, _ = trainer_on(tmp_path, eval_every=4)
        trainer.stop = StopRequest().listen()
        original = trainer._train_step

        def train_step(ahead):
            original(ahead)
            if trainer.engine.step == 8:
                os.kill(os.getpid(), number)

        trainer._train_step = train_step
        outcome = trainer.run()
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
    assert (outcome.status, outcome.step) == ("preempted", 8)
    assert signal.Signals(number).name in outcome.message
    resumed, second_log, _ = trainer_on(tmp_path, eval_every=4)
    assert resumed.engine.step == 8
    assert resumed.run() == expected
    assert engines.untimed(first_log + second_log) == engines.untimed(whole_log)


def stop_one_rank(rank, tmp_path):
    graph = topology.build("ring", 3)
    trainer, _, _ = trainer_on(tmp_path, None, engines.distributed_communicator(graph), graph)
    trainer.stop = StopRequest().listen()
    original = trainer._train_step

    def train_step(ahead):
        original(ahead)
        if trainer.engine.step == 3 and rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    trainer._train_step = train_step
    return trainer.run()


def test_signal_to_one_rank_stops_all_at_the_same_step(tmp_path):
    outcomes = run_ranks(stop_one_rank, 3, tmp_path)
    assert {(o.status, o.step) for o in outcomes} == {("preempted", 5)}
    assert sorted(p.name for p in (tmp_path / "c" / "step_00000005").iterdir()) == [
        "manifest.json", "rank_00000.pt", "rank_00001.pt", "rank_00002.pt",
    ]  # fmt: skip


def snapshot(engine):
    """Every bit of the local workers."""
    rows = [engine.x.clone(), *(b.clone() for own in engine.replicas.buffers for b in own)]
    return [t.numpy().tobytes() for t in rows]


@pytest.mark.parametrize("policy", ["average", "recompute", "local"])
def test_evaluation_changes_no_bit(tmp_path, policy):
    task = ToyTask(seed=1, world_size=4, batch_norm=True, dropout=0.3)
    trainer, _, _ = trainer_on(tmp_path, task, batch_norm=policy)
    engines.trajectory(trainer.engine, task, 3)
    before = snapshot(trainer.engine)
    bound = trainer.engine.replicas.bound
    trainer.evaluator.averaged_model()
    trainer.evaluator.local_models()
    trainer.engine.replicas.bind(bound)
    assert snapshot(trainer.engine) == before
    assert trainer.engine.model.training
    live = nn.utils.parameters_to_vector(trainer.engine.replicas.layout.parameters)
    views = nn.utils.parameters_to_vector(trainer.engine.replicas.views[bound])
    assert torch.equal(live, views)


def test_evaluating_more_often_does_not_change_training(tmp_path):
    ends = []
    for every in (0, 1):
        task = ToyTask(seed=1, world_size=4, batch_norm=True, dropout=0.3)
        trainer, _, _ = trainer_on(tmp_path / str(every), task, eval_every=every, batch_norm="recompute")
        trainer.run()
        ends.append(snapshot(trainer.engine))
    assert ends[0] == ends[1]


def test_averaged_model_is_the_mean_of_parameters_and_statistics(tmp_path):
    task = ToyTask(seed=1, world_size=4, batch_norm=True)
    trainer, _, _ = trainer_on(tmp_path, task)
    engines.trajectory(trainer.engine, task, 3)
    replicas = trainer.engine.replicas
    with averaged(trainer.engine) as model:
        found = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
        mean = model.norm.running_mean.clone()
    for number, name in enumerate(found):
        torch.testing.assert_close(found[name], sum(views[number] for views in replicas.views) / 4, rtol=1e-14, atol=0)
    torch.testing.assert_close(mean, sum(own[0] for own in replicas.buffers) / 4, rtol=1e-14, atol=0)
    assert len({tuple(own[0].tolist()) for own in replicas.buffers}) == 4, "statistics are the workers' own"


def test_recomputed_statistics_are_those_of_the_averaged_model(tmp_path):
    task = ToyTask(seed=1, world_size=4, batch_norm=True)
    trainer, _, _ = trainer_on(tmp_path, task, batch_norm="recompute")
    engines.trajectory(trainer.engine, task, 3)
    with averaged(trainer.engine, "recompute", recompute=trainer.evaluator._run_training_batches) as model:
        inputs = torch.cat([task.batch(step, worker)["x"] for step in range(10) for worker in range(4)])
        hidden = torch.tanh(inputs @ model.w1 + model.b1)
        torch.testing.assert_close(model.norm.running_mean, hidden.mean(0), rtol=1e-10, atol=1e-12)


def evaluate_on(rank, tmp_path, world_size):
    graph = topology.build("complete", world_size)
    world = VirtualCommunicator(world_size) if rank is None else engines.distributed_communicator(graph)
    trainer, _, _ = trainer_on(tmp_path / str(world_size), ToyTask(), world, graph)
    for row in trainer.engine.x:
        row.copy_(torch.linspace(-1, 1, row.numel(), dtype=row.dtype))
    return trainer.evaluator.averaged_model()


def test_validation_does_not_depend_on_the_number_of_workers(tmp_path):
    alone = evaluate_on(None, tmp_path, 1)
    for world_size in (2, 4, 8):
        assert evaluate_on(None, tmp_path, world_size) == alone
    assert run_ranks(evaluate_on, 2, tmp_path, 2) == [alone, alone]


def test_local_metrics_are_the_mean_of_the_workers_own_models(tmp_path):
    trainer, _, _ = trainer_on(tmp_path)
    parts = []
    for index in range(4):
        trainer.engine.replicas.bind(index)
        parts.append([trainer.task.evaluate(trainer.engine.model, b) for b in trainer.task.validation_batches()])
    losses = [trainer.task.summarise(own)["val_loss"] for own in parts]
    shards = trainer.task.summarise([parts[number % 4][number] for number in range(len(parts[0]))])
    assert trainer.evaluator.local_models() == {
        "local_val_loss": pytest.approx(np.mean(losses), rel=1e-14),
        "own_shard_val_loss": shards["val_loss"],
    }
    assert max(losses) > min(losses)


def test_consensus_distance_is_the_root_mean_square_to_the_mean(tmp_path):
    trainer, _, _ = trainer_on(tmp_path)
    rows = trainer.engine.x.numpy()
    expected = np.sqrt(((rows - rows.mean(0)) ** 2).sum(1).mean())
    assert consensus_distance(trainer.engine) == pytest.approx(expected, rel=1e-13)


def test_all_reduce_keeps_the_workers_equal(tmp_path):
    trainer, _, _ = trainer_on(tmp_path, graph=topology.build("complete", 7), method="allreduce", precision="fp32")
    assert trainer.run().consensus_distance == 0.0
    assert len(set(trainer.engine.parameter_hashes())) == 1


@pytest.mark.parametrize(("method", "sent"), [("awc", 2.0), ("allreduce", 1.5)])
def test_bytes_sent_are_counted(tmp_path, method, sent):
    """A ring worker sends its parameters to two neighbours; a ring all-reduce over 4 sends 2 (4 - 1) / 4 of them."""
    graph = RING if method == "awc" else topology.build("complete", 4)
    trainer, log, _ = trainer_on(tmp_path, graph=graph, method=method)
    trainer.run()
    row_bytes = trainer.engine.x.shape[1] * 8
    assert {entry["bytes_sent_per_step"] for entry in log if entry["kind"] == "train"} == {sent * row_bytes}
    assert trainer.progress.bytes_sent == 20 * sent * row_bytes


def test_train_loss_is_the_mean_over_the_steps_of_the_last_epoch(tmp_path):
    task = ToyTask(seed=1, world_size=4)
    task.steps_per_epoch = 5
    trainer, log, _ = trainer_on(tmp_path, task, steps=12, log_every=1)
    found = trainer.run().metrics["train_loss"]
    losses = [line["train_loss"] for line in log if line["kind"] == "train"]
    assert found == pytest.approx(sum(losses[-5:]) / 5, rel=1e-12)
    trainer, _, _ = trainer_on(tmp_path / "coarse", task, steps=12, log_every=7)
    assert trainer.run().metrics["train_loss"] == pytest.approx(found, rel=1e-12)
    task.steps_per_epoch = 13
    trainer, _, _ = trainer_on(tmp_path / "less_than_an_epoch", task, steps=12)
    assert "train_loss" not in trainer.run().metrics


def test_log_lines_and_curve(tmp_path):
    trainer, log, _ = trainer_on(tmp_path, eval_every=8)
    outcome = trainer.run()
    assert [(e["kind"], e["step"]) for e in log] == [
        ("train", 5), ("eval", 8), ("train", 10), ("train", 15), ("eval", 16), ("train", 20),
        ("eval", 20), ("eval", 20),
    ]  # fmt: skip
    curve = trainer.progress.curve
    assert [point["step"] for point in curve] == [8, 16, 20]
    assert len(trainer.progress.step_ms) == 20
    assert sum(trainer.progress.step_ms) == pytest.approx(1000 * trainer.progress.train_seconds)
    passed = [sum(trainer.progress.step_ms[: point["step"]]) / 1000 for point in curve]
    assert [point["seconds"] for point in curve] == pytest.approx(passed), "also between two log lines"
    assert outcome.metrics["val_loss"] == curve[-1]["values"]["val_loss"]
    assert trainer.progress.best["metrics"]["val_loss"] == min(point["values"]["val_loss"] for point in curve)


@pytest.mark.parametrize("method", ["awc", "atc", "allreduce"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_stays_near_fp32(tmp_path, method, precision):
    ends = {}
    for kind in ("fp32", precision):
        trainer, _, _ = trainer_on(tmp_path / kind, method=method, graph=topology.build("complete", 4), precision=kind)
        for scaler in trainer.engine.replicas.scalers if kind == "fp16" else ():
            scaler.load_state_dict({**scaler.state_dict(), "scale": 256.0})  # small enough for no step to be skipped
        ends[kind] = trainer.run().metrics["val_loss"]
        assert trainer.engine.x.dtype == torch.float32
    assert ends[precision] == pytest.approx(ends["fp32"], rel=0.05)
    assert ends[precision] != ends["fp32"]


def overflow(rank, tmp_path, method):
    """fp16 with a loss scale far too large for worker 0: it skips steps, the others go on, and all stay in step."""
    graph = topology.build("ring" if method == "awc" else "complete", 3)
    world = VirtualCommunicator(3) if rank is None else engines.distributed_communicator(graph, method)
    trainer, _, _ = trainer_on(
        tmp_path / f"{method}{rank}", None, world, graph, method, precision="fp16", diverged_patience=99
    )
    for scaler, worker in zip(trainer.engine.replicas.scalers, world.local_workers, strict=True):
        scaler.load_state_dict(
            {**scaler.state_dict(), "scale": 2.0 ** (60 if worker == 0 or method == "allreduce" else 10)}
        )
    outcome = trainer.run()
    scales = [scaler.get_scale() for scaler in trainer.engine.replicas.scalers]
    counts = [next(iter(o.state.values()))["step"].item() for o in trainer.engine.replicas.optimizers if o.state]
    return outcome.status, trainer.engine.step, scales, counts


@pytest.mark.parametrize("method", ["awc", "allreduce"])
def test_a_skipped_update_keeps_all_workers_in_step(tmp_path, method):
    virtual = overflow(None, tmp_path, method)
    ranks = run_ranks(overflow, 3, tmp_path, method)
    assert {(status, step) for status, step, *_ in ranks} == {("ok", 20)}
    assert [scale for rank in ranks for scale in rank[2]] == virtual[2]
    assert [count for rank in ranks for count in rank[3]] == virtual[3]
    assert virtual[2][0] < 2.0**60, "worker 0 has backed off"


def test_micro_batches_equal_one_batch(tmp_path):
    ends = []
    for count in (1, 2, 3):
        task = ToyTask(seed=1, world_size=4)
        trainer, _, _ = trainer_on(tmp_path / str(count), task, micro_batches=count, optimizer="accum_adam")
        ends.append(engines.trajectory(trainer.engine, task, 5)[-1])
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-13)
    np.testing.assert_allclose(ends[0], ends[2], rtol=1e-13)


def test_workers_draw_different_and_reproducible_random_numbers(tmp_path):
    trainer, _, _ = trainer_on(tmp_path)
    draws = {}
    for again in range(2):
        for step in (0, 1):
            trainer.engine.step = step
            for index in range(4):
                with trainer.engine.as_worker(index):
                    draws[again, step, index] = torch.rand(3).tolist()
    assert [draws[0, s, i] for s in (0, 1) for i in range(4)] == [draws[1, s, i] for s in (0, 1) for i in range(4)]
    assert len({tuple(d) for d in draws.values()}) == 8


@pytest.mark.parametrize("name", topology.names())
def test_rows_are_mixed_by_the_rounds_matrix(name):
    for world_size in (1, 4, 9, 16):
        try:
            graph = topology.build(name, world_size, 1)
        except (ValueError, TypeError):
            continue
        rows = torch.randn(world_size, 50, dtype=torch.float64)
        for step in range(min(graph.period, 6)):
            expected = graph.matrix(step) @ rows.numpy()
            np.testing.assert_allclose(mix_rows(rows.clone(), graph.round(step)).numpy(), expected, atol=1e-14)


def test_outcome_is_plain_data(tmp_path):
    trainer, _, _ = trainer_on(tmp_path)
    assert all(isinstance(v, float) for v in dataclasses.asdict(trainer.run())["metrics"].values())
