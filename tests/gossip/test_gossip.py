"""`Gossip` in plain training loops: beside DistributedDataParallel, the suite's engine and plain training."""

import copy

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from decent_core import Gossip, topology
from decent_core.engine.engine import Engine
from decent_core.engine.rank_context import ExchangeError
from decent_core.methods import METHODS
from tests.support import engines
from tests.support.ranks import run_ranks

STEPS = 5


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def loss(model: nn.Module, step: int, rank: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(100 * step + rank)
    return (model(torch.randn(6, 5, generator=draw)) - rank).square().mean()


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def train(model: nn.Module, optimizer, rank: int, steps=range(STEPS), clip: float | None = None) -> torch.Tensor:
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for step in steps:
        for part in range(2):  # gradients accumulate
            loss(model, 2 * step + part, rank).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return flat(model)


class Counting(torch.optim.Optimizer):
    """A user's own optimizer with a counter: its rate falls with every call of `step`."""

    def __init__(self, params, lr: float):
        super().__init__(params, {"lr": lr})
        self.t = 0

    @torch.no_grad()
    def step(self, closure=None) -> None:
        self.t += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad, alpha=group["lr"] / self.t)


OPTIMIZERS = {
    "sgd": lambda m: torch.optim.SGD(
        [{"params": m[0].parameters(), "lr": 0.01}, {"params": m[2].parameters()}], lr=0.1, momentum=0.9
    ),
    "fused": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, fused=True),
    "rmsprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=0.01),
    "nadam": lambda m: torch.optim.NAdam(m.parameters(), lr=0.01),
    "adafactor": lambda m: torch.optim.Adafactor(m.parameters(), lr=0.01),
    "counting": lambda m: Counting(m.parameters(), lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_process_is_plain_training(name):
    ends = []
    for wrapped in (False, True):
        model = net()
        optimizer = OPTIMIZERS[name](model)
        ends.append(train(model, Gossip(model, optimizer, "ring") if wrapped else optimizer, 0, clip=0.1))
    assert torch.equal(*ends)


def test_names():
    assert {"ring", "complete", "aer"} <= set(Gossip.topologies())
    assert {"awc", "allreduce"} <= set(Gossip.methods())


def same_as_engine(rank: int, name: str) -> bool:
    model, other = net(rank), net(rank)
    train(model, Gossip(model, OPTIMIZERS["fused"](model), name, local_size=2), rank, clip=0.1)
    graph = topology.build(name, dist.get_world_size(), 2)
    world = engines.distributed_communicator(graph, bucket_mib=25)
    engine = Engine(other, world, METHODS["awc"](), graph, lambda m: OPTIMIZERS["fused"](m), clip_norm=0.1)
    for step in range(STEPS):
        engine.set_learning_rate(0.01 * 0.5 ** (step // 2))
        engine.begin_step()
        with engine.as_worker(0) as module:
            for part in range(2):
                engine.backward(0, loss(module, 2 * step + part, rank))
        engine.end_step()
    return torch.equal(flat(model), flat(other))


def against_ddp(rank: int) -> tuple[np.ndarray, np.ndarray]:
    mine, theirs = net(), net()
    wrapped = DistributedDataParallel(theirs)
    optimizers = Gossip(mine, OPTIMIZERS["sgd"](mine), "complete", "allreduce"), OPTIMIZERS["sgd"](theirs)
    for step in range(STEPS):
        for model, optimizer in zip((mine, wrapped), optimizers, strict=True):
            loss(model, step, rank).backward()
            optimizer.step()
            optimizer.zero_grad()
    return flat(mine).numpy(), flat(theirs).numpy()


def resumes(rank: int, method: str) -> bool:
    def start(seed: int):
        model = net(seed)
        base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # one rate: qg and slowmo divide by it
        return model, Gossip(model, base, "ring", method)

    model, optimizer = start(1)
    for step in range(3):
        loss(model, step, rank).backward()
        optimizer.step()
        optimizer.zero_grad()
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    other, resumed = start(2)
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    for step in range(3, 6):
        for m, o in ((model, optimizer), (other, resumed)):
            loss(m, step, rank).backward()
            o.step()
            o.zero_grad()
    return torch.equal(flat(model), flat(other))


def a_bad_step_keeps_ranks_together(rank: int) -> bool:
    model = net()
    optimizer = Gossip(model, OPTIMIZERS["sgd"](model), "complete")
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for step in range(STEPS):
        poison = float("inf") if (rank, step) == (1, 2) else 1.0
        scaler.scale(loss(model, step, rank) * poison).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return bool(torch.isfinite(flat(model)).all()) and scaler.get_scale() == (2.0 if rank == 1 else 4.0)


def averages(rank: int) -> bool:
    model = net()
    optimizer = Gossip(model, OPTIMIZERS["sgd"](model), "ring")
    train(model, optimizer, rank)
    before, distance = flat(model), optimizer.consensus_distance()
    mean = before.clone()
    dist.all_reduce(mean)
    with optimizer.averaged() as inside:
        near = torch.allclose(flat(inside), mean / dist.get_world_size())
    return near and torch.equal(flat(model), before) and distance > 0


def checks(rank: int) -> dict:
    found = {f"engine {name}": same_as_engine(rank, name) for name in ("ring", "complete", "aer")}
    found |= {f"resume {method}": resumes(rank, method) for method in ("awc", "slowmo", "gradient_tracking", "qg")}
    found["scaler"] = a_bad_step_keeps_ranks_together(rank)
    found["averaged"] = averages(rank)
    return found


def test_on_four_ranks():
    for rank, found in enumerate(run_ranks(checks, 4)):
        assert all(found.values()), (rank, found)


def test_all_reduce_is_ddp():
    for mine, theirs in run_ranks(against_ddp, 2):
        np.testing.assert_array_equal(mine, theirs)


def part_of_the_world(rank: int) -> float:
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    model = net(rank)
    optimizer = Gossip(model, OPTIMIZERS["sgd"](model), "complete", process_group=groups[rank // 2])
    train(model, optimizer, rank)
    return optimizer.consensus_distance()


def test_a_process_group_is_the_world():
    distances = run_ranks(part_of_the_world, 4)
    assert distances[0] == distances[1] != distances[2] == distances[3]


def alone(rank: int) -> str:
    model = net()
    optimizer = Gossip(model, OPTIMIZERS["sgd"](model), "ring", timeout=2)
    try:
        if rank == 0:
            with optimizer.averaged():
                return "entered"
        train(model, optimizer, rank)
    except ExchangeError as error:
        return str(error)
    return "trained"


def test_one_rank_alone_in_averaged_is_told_so():
    first, second = run_ranks(alone, 2)
    assert "averaged() must be called by every rank" in first
    assert "step 0" in second


def build(model=None, optimizer=None, method="awc", **options) -> Gossip:
    model = net() if model is None else model
    chosen = optimizer(model) if optimizer else torch.optim.SGD(model.parameters(), lr=0.1)
    return Gossip(model, chosen, "ring", method, **options)


class FullyShardedDataParallel(nn.Sequential):
    """Has the name of torch's wrapper, which needs a process group."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"optimizer": lambda m: torch.optim.LBFGS(m.parameters())}, "LBFGS calls the model several times"),
        ({"optimizer": lambda m: torch.optim.SparseAdam(m.parameters())}, "SparseAdam takes sparse gradients"),
        ({"optimizer": lambda m: torch.optim.SGD(net().parameters())}, "holds 4 tensors that are no parameters"),
        ({"method": "d2", "optimizer": OPTIMIZERS["fused"]}, "optimizer=adamw: method=d2 goes with sgd only"),
        ({"method": "decentlam", "optimizer": OPTIMIZERS["rmsprop"]}, "optimizer=RMSprop: method=decentlam"),
        ({"method": "awk"}, "method=awk: there is none"),
        ({"tau": 3}, "method=awc: .*tau"),
        ({"method": "dsgd_ac"}, "method=dsgd_ac needs the highest learning rate of the whole run"),
        ({"model": FullyShardedDataParallel(nn.Linear(2, 2))}, "wrapped in FullyShardedDataParallel"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build(**arguments)


def test_unknown_topology():
    model = net()
    with pytest.raises(ValueError, match="rink"):
        Gossip(model, OPTIMIZERS["sgd"](model), "rink")


def test_a_method_that_divides_by_the_rate_needs_one_rate():
    model = net()
    optimizer = Gossip(model, OPTIMIZERS["sgd"](model), "ring", "decentlam")
    with pytest.raises(ValueError, match=r"decentlam divides by the learning rate, .* different ones \(0.01, 0.1\)"):
        train(model, optimizer, 0)


def test_closures_are_refused():
    with pytest.raises(ValueError, match="a closure may run the model several times"):
        build().step(lambda: 0.0)


def assign(model: nn.Module) -> None:
    model.load_state_dict(net(1).state_dict(), assign=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.double(), r"parameter 0.weight has other memory.*float32, now torch.float64"),
        (assign, "parameter 0.weight was added, unfrozen or replaced"),
        (lambda m: m.append(nn.Linear(3, 3)), "parameter 3.weight was added"),
        (lambda m: m[0].requires_grad_(False), "2 parameters were removed or frozen"),
    ],
)
def test_broken_links_are_named(change, message):
    model = net()
    optimizer = build(model)
    change(model)
    with pytest.raises(ValueError, match=message):
        optimizer.begin()
