"""Flat rows: every parameter is a view in its own shape and memory format."""

import pytest
import torch
from torch import nn

from decent_core import topology
from decent_core.engine.engine import Engine
from decent_core.engine.flat import ALIGNMENT, FlatLayout
from decent_core.engine.virtual import VirtualCommunicator
from decent_core.methods import METHODS
from tests.support import engines
from tests.support.toy import ToyTask


class Tied(nn.Module):
    """One weight in two places, a frozen layer, and a convolution."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.frozen = nn.Linear(3, 3).requires_grad_(False)
        self.convolution = nn.Conv2d(3, 5, 3)


def test_views_cover_trainable_parameters_once_and_do_not_overlap():
    model = Tied()
    layout = FlatLayout(model)
    assert [tuple(p.shape) for p in layout.parameters] == [(11, 6), (5, 3, 3, 3), (5,)]
    row = torch.zeros(layout.size)
    for number, view in enumerate(layout.views(row), 1):
        assert view.storage_offset() % ALIGNMENT == 0
        assert not view.any(), "two views share an element"
        view.fill_(number)
    assert int((row != 0).sum()) == sum(p.numel() for p in layout.parameters)


def test_flatten_is_the_inverse_of_views():
    layout = FlatLayout(Tied())
    row = layout.flatten([p.data for p in layout.parameters], out=torch.empty(layout.size))
    for parameter, view in zip(layout.parameters, layout.views(row), strict=True):
        assert torch.equal(parameter, view)
    assert not layout.flatten([None] * 3, out=row).any()


def test_channels_last_kernels_stay_channels_last():
    model = Tied().to(memory_format=torch.channels_last)
    layout = FlatLayout(model)
    (view,) = [v for v in layout.views(torch.zeros(layout.size)) if v.dim() == 4]
    assert view.is_contiguous(memory_format=torch.channels_last)
    graph = topology.build("ring", 3)
    engine = Engine(
        Tied().to(memory_format=torch.channels_last), VirtualCommunicator(3), METHODS["atc"](), graph,
        lambda m: torch.optim.SGD(m.parameters(), 0.1),
    )  # fmt: skip
    assert engine.model.convolution.weight.is_contiguous(memory_format=torch.channels_last)


def test_parameter_with_gaps_becomes_contiguous():
    model = nn.Linear(4, 4, bias=False)
    model.weight = nn.Parameter(torch.randn(4, 8)[:, ::2])
    (view,) = FlatLayout(model).views(torch.zeros(16))
    assert view.is_contiguous()


def test_mixed_types_are_refused():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(ValueError, match=r"must share one dtype.*float32.*float64"):
        FlatLayout(model)


def test_tied_weights_stay_tied_while_workers_take_turns():
    graph = topology.build("ring", 3)
    engine = Engine(
        Tied(), VirtualCommunicator(3), METHODS["awc"](), graph,
        lambda m: torch.optim.SGD(m.parameters(), 0.1),
    )  # fmt: skip
    for index in (2, 0, 1):
        engine.replicas.bind(index)
        assert engine.model.head.weight is engine.model.embedding.weight
        assert engine.model.head.weight.data_ptr() == engine.replicas.views[index][0].data_ptr()


@pytest.mark.slow
def test_compiled_model_takes_the_same_steps(tmp_path):
    """One compiled module serves all virtual workers in turn."""
    ends = []
    for compiled in (False, True):
        task = ToyTask(seed=1, world_size=3)
        graph = topology.build("ring", 3)
        engine = engines.build_engine(VirtualCommunicator(3), task, "awc", "adamw", graph, compile=compiled)
        ends.append(engines.trajectory(engine, task, 6)[-1])
    torch.testing.assert_close(torch.from_numpy(ends[0]), torch.from_numpy(ends[1]), rtol=1e-12, atol=1e-12)


def test_memory_is_a_fixed_number_of_model_copies_a_worker():
    """Parameters, gradients and two moments for each worker; mixing and updating add less than one copy of all."""
    graph = topology.build("complete", 4)
    world = VirtualCommunicator(4)
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(8)])
    parameter_bytes = 4 * sum(p.numel() for p in model.parameters())
    engine = Engine(
        model, world, METHODS["awc"](), graph, lambda m: torch.optim.AdamW(m.parameters(), 0.1),
    )  # fmt: skip
    for _ in range(2):
        engine.begin_step()
        for index in range(4):
            with engine.as_worker(index) as module:
                engine.backward(index, module(torch.ones(2, 256)).sum())
        engine.end_step()
    kept = [engine.x, *(g for own in engine.replicas.gradients for g in own if g is not None)]
    kept += [t for o in engine.replicas.optimizers for s in o.state.values() for t in s.values() if t.dim()]
    assert sum(t.numel() * 4 for t in kept) == pytest.approx(4 * (1 + 1 + 2) * parameter_bytes, rel=0.01)
