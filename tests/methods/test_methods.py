"""Methods on a network with frozen, unused and sometimes unused tensors: engines, checkpoints, precision, refusals."""

import io

import numpy as np
import pytest
import torch

from decent_core import topology
from decent_core.config.load import load
from decent_core.engine.virtual import VirtualCommunicator
from decent_core.methods import METHODS
from tests.support import engines
from tests.support.ranks import run_ranks
from tests.support.toy import ToyTask

WORLD = 4

#: method: (options, optimizer, topology); outer steps and rounds fall on other steps than the checkpoint
CASES = {
    "decentlam": ({}, "sgd", "ring"),
    "da": ({}, "sgd", "one_peer_exp"),
    "qg": ({}, "sgd", "base_k"),
    "d2": ({"damped": True}, "sgd", "ring"),
    "gradient_tracking": ({}, "accum_adamw", "static_exp"),
    "sgp": ({}, "adamw", "push_exp"),
    "local_sgd": ({"every": 3}, "adam", "one_peer_exp"),
    "diloco": ({"every": 3}, "adamw", "complete"),
    "noloco": ({"every": 3}, "adamw", "random_match"),
    "dsgd_ac": ({"form": "atc"}, "sgd", "ring"),
    "slowmo": ({"base": "gradient_tracking", "tau": 3}, "sgd", "one_peer_exp"),
}
SETTINGS = {"clip_norm": 0.5, "micro_batches": 2}
BEFORE, AFTER = 7, 6  # steps before and after the checkpoint


def engine_of(name: str, rank=None, **settings):
    options, optimizer, graph_name = CASES[name]
    graph = topology.build(graph_name, WORLD)
    world = VirtualCommunicator(WORLD) if rank is None else engines.distributed_communicator(graph, name)
    task = ToyTask(seed=1, world_size=WORLD)
    engine = engines.build_engine(
        world, task, name, optimizer, graph, spread=0, options=options, **{**SETTINGS, **settings}
    )
    return engine, task


def whole_and_resumed(name: str, rank=None) -> tuple[np.ndarray, np.ndarray]:
    """x after each step of a run, and of one that goes on from a checkpoint in other engines, both [steps, L, D]."""
    engine, task = engine_of(name, rank)
    rows = engines.trajectory(engine, task, BEFORE)
    file = io.BytesIO()
    torch.save(engine.state_dict(), file)
    whole = [*rows, *engines.trajectory(engine, task, AFTER)]
    other, task = engine_of(name, rank)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    return np.stack(whole), np.stack([*rows, *engines.trajectory(other, task, AFTER)])


def on_rank(rank: int) -> dict:
    return {name: whole_and_resumed(name, rank) for name in CASES}


@pytest.fixture(scope="module")
def gloo():
    ranks = run_ranks(on_rank, WORLD)
    return {name: [np.concatenate([r[name][k] for r in ranks], axis=1) for k in (0, 1)] for name in CASES}


def test_every_method_beyond_the_first_three_has_a_case():
    assert set(CASES) == set(METHODS) - {"allreduce", "awc", "atc"}


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_equals_a_whole_one_bit_for_bit(name):
    whole, resumed = whole_and_resumed(name)
    np.testing.assert_array_equal(whole, resumed)
    assert np.isfinite(whole).all()
    assert not np.allclose(whole[0], whole[-1])


def test_resumed_ranks_equal_whole_ones_bit_for_bit(gloo):
    for name, (whole, resumed) in gloo.items():
        np.testing.assert_array_equal(whole, resumed, err_msg=name)


def test_ranks_equal_virtual_workers(gloo):
    for name, (whole, _) in gloo.items():
        virtual = whole_and_resumed(name)[0]
        np.testing.assert_allclose(whole, virtual, rtol=1e-11, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", ["decentlam", "da", "qg", "d2", "gradient_tracking", "sgp"])
def test_a_worker_that_skips_a_step_spoils_no_other(name):
    """A loss scale that overflows on worker 0: it backs off, all go on in step, and nothing turns infinite."""
    engine, task = engine_of(name, precision="fp16", clip_norm=None)
    for scaler, scale in zip(engine.replicas.scalers, (2.0**127, 256.0, 256.0, 256.0), strict=True):
        scaler.load_state_dict({**scaler.state_dict(), "scale": scale})
    rows = engines.trajectory(engine, task, 12)
    assert all(np.isfinite(x).all() for x in rows)
    scales = [scaler.get_scale() for scaler in engine.replicas.scalers]
    assert 0 < scales[0] < 2.0**127
    assert scales[1:] == [256.0] * 3
    assert engine.step == 12


def test_gradients_carry_the_decay_of_decayed_tensors_that_have_a_gradient():
    engine, task = engine_of("decentlam", clip_norm=None, micro_batches=1)
    without = []
    original = engine.method.end_step

    def end_step(workers):
        replicas = engine.replicas
        replicas.stash_gradients()
        plain = [[None if g is None else g.clone() for g in own] for own in replicas.gradients]
        rows = workers.gradients()
        for own, row in zip(plain, rows, strict=True):
            views = replicas.layout.views(row)
            for parameter, gradient, view in zip(replicas.layout.parameters, own, views, strict=True):
                decayed = engines.DECAY * parameter if parameter.ndim == 2 else 0.0  # all rows are alike here
                wanted = torch.zeros_like(view) if gradient is None else gradient + decayed
                without.append(torch.allclose(view, wanted, rtol=1e-14, atol=0))

    engine.method.end_step = end_step
    engines.train_step(engine, task)
    assert without and all(without)
    assert original is not None


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("decentlam", 2.0), ("da", 2.0), ("qg", 1.0), ("gradient_tracking", 4.0), ("local_sgd", 1 / 3),
        ("diloco", 0.5), ("noloco", 2 / 3),
    ],
)  # fmt: skip
def test_bytes_are_counted_for_all_that_is_exchanged(name, sent):
    """In rows a step: neighbours on the ring, pairs, x and m or y; a mean over 4 is 2 (4 - 1) / 4 of a row."""
    engine, task = engine_of(name)
    total = 0.0
    for _ in range(12):
        engines.train_step(engine, task)
        total += engine.bytes_sent
    row_bytes = engine.x.shape[1] * engine.x.element_size()
    if name == "qg":
        graph = engine.exchanges.topology
        sent = np.mean([graph.round(step).bytes_sent(1).mean() for step in range(12)])
    assert total / 12 == pytest.approx(sent * row_bytes)


REFUSED = [
    ("method=decentlam topology=ring optimizer=adamw", "optimizer=adamw: method=decentlam goes with sgd only: its mom"),
    ("method=slowmo method.base=da topology=ring optimizer=adam", "optimizer=adam: method=da goes with sgd only"),
    (
        "method=decentlam topology=ring optimizer=sgd optimizer.nesterov=true",
        "optimizer.nesterov=true: method=decentlam is defined with heavy-ball momentum",
    ),
    (
        "method=slowmo method.base=decentlam topology=ring optimizer=sgd optimizer.nesterov=true",
        "optimizer.nesterov=true: method=decentlam is defined",
    ),
    ("method=d2 topology=ring optimizer=sgd", "topology=ring with 8 workers: method=d2 would diverge there"),
    ("method=d2 topology=one_peer_exp optimizer=sgd", "topology=one_peer_exp with 8 workers: method=d2 would"),
    (
        "method=decentlam topology=static_exp optimizer=sgd",
        "topology=static_exp with 8 workers: method=decentlam would",
    ),
    ("method=atc topology=push_exp", "topology=push_exp: its rounds are only column-stochastic"),
    ("method=diloco topology=ring", "topology=ring: method=diloco averages models over all workers"),
    ("method=local_sgd method.every=0 topology=ring", "method.every=0: method=local_sgd needs at least 1 step"),
    ("method=slowmo method.base=d2 topology=ring", "method.base=d2: method=slowmo needs one of"),
    ("method=qg method.mu=1.0 topology=ring optimizer=sgd", "method.mu=1.0: method=qg needs null or a number"),
]


@pytest.mark.parametrize(("overrides", "message"), REFUSED)
def test_combinations_without_meaning_are_refused_with_the_reason(overrides, message):
    rate = ["optimizer.lr=0.1"] if "optimizer" in overrides else []
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load([*overrides.split(), *rate])
    assert str(caught.value).startswith(message)


def test_what_is_refused_does_blow_up_and_what_is_not_does_not():
    """The bound of D2 and of DecentLaM against many rounds of the bare recursion."""
    for name, beta, graph_name, options in [
        ("d2", 0.0, "static_exp", {}), ("d2", 0.0, "grid", {}), ("d2", 0.0, "static_exp", {"damped": True}),
        ("decentlam", 0.9, "static_exp", {}), ("decentlam", 0.9, "one_peer_exp", {}), ("decentlam", 0.9, "ring", {}),
        ("decentlam", 0.5, "static_exp", {}),
    ]:  # fmt: skip
        graph = topology.build(graph_name, 8)
        try:
            METHODS[name](**options).check_topology(graph, beta)
            refused = False
        except ValueError:
            refused = True
        x = before = np.random.default_rng(0).normal(size=8)
        for step in range(600):
            w = graph.matrix(step)
            w = (w + np.eye(8)) / 2 if options else w
            x, before = (w @ (2 * x - before) if name == "d2" else w @ x + beta * (x - before)), x
        assert (np.ptp(x) > 1) == refused, (name, graph_name, np.ptp(x))
