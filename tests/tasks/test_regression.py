"""The regression task against numpy, through the task protocol and through training."""

import json

import numpy as np
import pandas
import pytest
import torch

from decent_core import topology
from decent_core.config.load import load
from decent_core.report.bias_figure import draw_distances
from decent_core.system.signals import StopRequest
from decent_core.training.run import Run
from tasks.regression import bias, bias_report
from tasks.regression.problem import draw
from tasks.regression.settings import Settings
from tests.support.quadratic import task_of


def settings(problem="least_squares", **changes) -> Settings:
    values = {"dimension": 4, "equations": 6, "noise": 0.5, "data_seed": 3} | changes
    return Settings("regression", problem, **values)


@pytest.mark.parametrize("problem", ["least_squares", "quadratic"])
def test_gradients_and_optimum_are_those_of_the_loss(problem):
    task = task_of(3, problem)
    model = task.build_model().double()
    x = torch.randn(3, len(model.x), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for worker in range(3):
        model.x.data.copy_(x[worker])
        model.x.grad = None
        task.loss_sum(model, task.batch(0, worker)).backward()
        np.testing.assert_allclose(model.x.grad, task.problem.gradients(x.numpy())[worker], rtol=1e-12)
    optimum = np.tile(task.problem.optimum, (3, 1))
    np.testing.assert_allclose(task.problem.gradients(optimum).mean(0), 0, atol=1e-13)
    assert task.problem.disagreement > 0.1


def test_quadratic_is_the_one_of_the_formula():
    """f_i = 1/2 sum_d a_d (x_d - c_d)^2: a diagonal curvature between 1/2 and 3/2, and minimum c."""
    problem = draw(settings("quadratic"), 3)
    for hessian in problem.hessians:
        assert np.count_nonzero(hessian - np.diag(np.diag(hessian))) == 0
        assert ((np.diag(hessian) >= 0.5) & (np.diag(hessian) <= 1.5)).all()
    centres = problem.offsets / np.array([np.diag(h) for h in problem.hessians])
    np.testing.assert_allclose(problem.gradients(centres), 0, atol=1e-14)


def test_batches_are_all_of_a_workers_equations_and_micro_batches_add_up():
    task = task_of(2, "least_squares")
    batch = task.batch(5, 1)
    np.testing.assert_array_equal(batch["A"], task.problem.A[1])
    assert task.weight(batch) == 1
    parts = task.micro_batches(batch, 3)
    assert sum(task.weight(part) for part in parts) == pytest.approx(1)
    model = task.build_model()
    whole, summed = task.loss_sum(model, batch), sum(task.loss_sum(model, part) for part in parts)
    torch.testing.assert_close(whole, summed)
    with pytest.raises(ValueError, match=r"trainer.micro_batches=6 .* from 1 to 5"):
        task.micro_batches(batch, 6)


def test_metrics_are_the_distance_and_the_gap():
    task = task_of(2, "least_squares")
    model = task.build_model().double()
    (batch,) = task.validation_batches()
    found = task.summarise([task.evaluate(model, batch)])
    problem = task.problem
    losses = [sum(0.5 * ((A @ x - b) ** 2).sum() for A, b in zip(problem.A, problem.b, strict=True)) / 2
              for x in (np.zeros_like(problem.optimum), problem.optimum)]  # fmt: skip
    assert found["squared_distance"] == pytest.approx((problem.optimum**2).sum())
    assert found["log10_squared_distance"] == pytest.approx(np.log10((problem.optimum**2).sum()))
    assert found["objective_gap"] == pytest.approx(losses[0] - losses[1])
    model.x.data.copy_(torch.from_numpy(problem.optimum))
    assert task.summarise([task.evaluate(model, batch)])["log10_squared_distance"] == -32


@pytest.mark.parametrize(("key", "value"), [("dimension", 0), ("equations", 0), ("noise", -1.0)])
def test_settings_refuse_what_is_no_problem(key, value):
    with pytest.raises(ValueError, match=f"task.{key}="):
        settings(**{key: value})


def test_training_comes_to_rest_at_the_fixed_point(tmp_path):
    """Through configuration, engine and record: the record's distance is that of the solved equation."""
    out = tmp_path / "run"
    steps = ["trainer.steps=400", "trainer.eval_every=0", "trainer.log_every=400", "optimizer.lr=0.05"]
    config = load(["experiment=l/figure2/decentlam", "scale=smoke", *steps, f"out={out}"])
    with Run(config, StopRequest()) as run:
        _, path = run.train()
        problem = run.task.problem
    W = topology.build("ring", 4).matrix(0)
    x = problem.fixed_point(W, W, config.optimizer.lr)
    metrics = json.loads(path.read_text())["metrics"]
    assert metrics["local_squared_distance"] == pytest.approx(problem.bias(x), rel=1e-8)


def test_bias_table_measures_what_the_formula_says(monkeypatch):
    monkeypatch.setattr(bias, "LEARNING_RATES", (1e-3,))
    monkeypatch.setattr(bias, "TOPOLOGIES", ("torus", "static_exp"))
    problem = draw(load(["experiment=l/figure2/decentlam"]).task, bias.WORKERS)
    rows = list(bias.bias_rows(problem))
    assert len(rows) == 2 * len(bias.METHODS_COMPARED)
    diverged = [(row["topology"], row["method"]) for row in rows if not np.isfinite(row["measured"])]
    assert diverged == [("static_exp", "DecentLaM")]
    for row in rows:
        if np.isfinite(row["measured"]):
            assert row["measured"] == pytest.approx(row["fixed_point"], rel=1e-4)
        assert row["fixed_point"] < row["bound"]
    text = bias_report.markdown(
        pandas.DataFrame(rows), pandas.DataFrame(bias.ratio_rows(draw(settings(), 8), 8)), 8, "made here"
    )
    assert "diverges" in text
    assert "| torus | 0.6000 | 0.001 |" in text


def test_figure_is_drawn_for_curves_that_rest_and_that_vanish(tmp_path):
    names = list(bias_report.NAMES.values())
    curves = {name: ([1, 2, 3], [1.0, 0.1, 0.1 if number else 1e-20]) for number, name in enumerate(names)}
    draw_distances(curves, tmp_path / "figure.png", "title")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
