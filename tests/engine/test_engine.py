"""Virtual workers, real gloo ranks and the dense numpy reference take the same steps."""

import itertools

import numpy as np
import pytest

from decent_core import topology
from decent_core.engine.virtual import VirtualCommunicator
from tests.support import engines, reference
from tests.support.ranks import run_ranks
from tests.support.toy import ToyTask

#: a warm-up of five steps, two windows of AccumAdam, and a step in which a parameter has no gradient anywhere
STEPS = 9
GOSSIP = ("awc", "atc")
OPTIMIZERS = ("sgd", "adam", "adamw", "accum_adam", "accum_adamw")
FIRST = ("complete", "ring", "alternating_ring", "one_peer_exp", "one_peer_hypercube", "static_exp", "aer", "base_k")
SETTINGS = {"clip_norm": 0.5, "micro_batches": 2}


def serves(name: str, world_size: int, local_size: int = 1) -> bool:
    try:
        topology.build(name, world_size, local_size)
    except ValueError:
        return False
    return True


def combinations(world_size: int, local_size: int = 1) -> list[tuple[str, str, str]]:
    gossip = itertools.product(GOSSIP, OPTIMIZERS, [name for name in FIRST if serves(name, world_size, local_size)])
    return [*gossip, *itertools.product(["allreduce"], OPTIMIZERS, ["complete"])]


def some_combinations(world_size: int, local_size: int) -> list[tuple[str, str, str]]:
    """Every topology with each method, every optimizer with each method, but not the product of all three."""
    both = {"accum_adamw", "sgd"}
    return [c for c in combinations(world_size, local_size) if c[1] in both or c[2] == "complete"]


def expected(
    world_size: int, method: str, optimizer: str, name: str, local_size: int, settings: dict
) -> list[list[dict]]:
    """The reference's parameters of all workers after each step."""
    graph = topology.build(name, world_size, local_size)
    task = ToyTask(seed=1, world_size=world_size)
    engine = engines.build_engine(VirtualCommunicator(world_size), task, method, optimizer, graph)
    start = [engines.parameters(engine, i) for i in range(world_size)]
    local = [reference.Local(optimizer, engines.LR, engines.DECAY) for _ in range(world_size)]
    frozen = engine.model.frozen.detach().numpy()
    return reference.train(start, frozen, task, graph, method, local, engines.rate, STEPS, settings.get("clip_norm"))


def rows_of(history: list[list[dict]], world_size: int) -> list[np.ndarray]:
    """Reference parameters as flat rows [N, D], with the gaps that aligned tensors leave."""
    task = ToyTask()
    engine = engines.build_engine(VirtualCommunicator(1), task, "atc", "sgd", topology.build("complete", 1))
    layout = engine.replicas.layout
    rows = []
    for workers in history:
        flat = np.zeros((world_size, layout.size))
        for row, x in zip(flat, workers, strict=True):
            names = [name for name, p in engine.model.named_parameters() if p.requires_grad]
            for name, offset in zip(names, layout.offsets, strict=True):
                row[offset : offset + x[name].size] = x[name].ravel()
        rows.append(flat)
    return rows


def assert_equal_steps(actual: list[np.ndarray], wanted: list[np.ndarray], what: object) -> None:
    assert len(actual) == len(wanted) == STEPS
    for step, (a, w) in enumerate(zip(actual, wanted, strict=True)):
        np.testing.assert_allclose(a, w, rtol=1e-12, atol=1e-12, err_msg=f"{what} after step {step}")


def whole_grid(*shape):
    """A case that takes all combinations, or runs on another world than four; those of the first suffice for most."""
    return pytest.param(*shape, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("chosen", "world_size", "local_size"),
    [
        (some_combinations, 4, 2),
        (some_combinations, 3, 1),
        whole_grid(combinations, 4, 2),
        *[whole_grid(some_combinations, *shape) for shape in ((1, 1), (5, 1), (8, 2))],
    ],
)
def test_virtual_equals_reference(chosen, world_size, local_size):
    for method, optimizer, name in chosen(world_size, local_size):
        wanted = rows_of(expected(world_size, method, optimizer, name, local_size, SETTINGS), world_size)
        actual = engines.case(world_size, method, optimizer, name, local_size, SETTINGS, STEPS)
        assert_equal_steps(actual, wanted, (method, optimizer, name))


def rank_trajectories(rank: int, world_size: int, local_size: int, settings: dict, cases: list) -> list:
    return [engines.case(world_size, *case, local_size, settings, STEPS, rank) for case in cases]


@pytest.mark.parametrize(
    ("chosen", "world_size", "local_size"),
    [
        (some_combinations, 4, 2),
        whole_grid(combinations, 4, 2),
        *[whole_grid(some_combinations, *shape) for shape in ((3, 1), (5, 1))],
    ],
)
def test_gloo_ranks_equal_virtual_workers(chosen, world_size, local_size):
    cases = chosen(world_size, local_size)
    ranks = run_ranks(rank_trajectories, world_size, world_size, local_size, SETTINGS, cases, seconds=200)
    for number, case in enumerate(cases):
        wanted = engines.case(world_size, *case, local_size, SETTINGS, STEPS)
        actual = [np.concatenate(rows) for rows in zip(*(rank[number] for rank in ranks), strict=True)]
        assert_equal_steps(actual, wanted, case)


def test_reference_moves_what_it_should():
    """A guard for the comparison itself: the unused parameter mixes but is never updated, the frozen one stays."""
    history = expected(4, "awc", "adamw", "ring", 1, {})
    start, end = history[0], history[-1]
    assert not np.allclose(start[0]["w1"], end[0]["w1"])
    spread = [np.std([x["unused"] for x in workers], axis=0).max() for workers in (start, end)]
    assert spread[1] < 0.01 * spread[0]
    means = [np.mean([x["unused"] for x in workers], axis=0) for workers in (start, end)]
    np.testing.assert_allclose(*means, atol=1e-12)
