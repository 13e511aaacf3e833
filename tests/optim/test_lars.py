from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decent_core.optim import LARS
from tests.support.reference_optim import LARSReference

KNOBS = {"lr": 0.5, "momentum": 0.9, "weight_decay": 1e-3, "trust_coefficient": 0.01, "eps": 1e-8}
SHAPES = [(4, 3), (3, 2, 2, 2), (5,), ()]


def random_arrays(seed):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape) for shape in SHAPES]


@settings(max_examples=40, deadline=None)
@given(
    momentum=st.sampled_from([0.0, 0.9]),
    weight_decay=st.sampled_from([0.0, 5e-4, 0.1]),
    trust_coefficient=st.sampled_from([1e-3, 0.02]),
    eps=st.sampled_from([0.0, 1e-2]),
    zero=st.sampled_from([None, "x", "g"]),
    missing=st.lists(st.sets(st.integers(0, 3)), min_size=12, max_size=12),
    rates=st.lists(st.sampled_from([0.0, 0.1, 3.0]), min_size=12, max_size=12),
)
def test_lars_is_the_reference(momentum, weight_decay, trust_coefficient, eps, zero, missing, rates):
    """With a new rate in each step, missing gradients, a group without adaptation, and zeros."""
    arrays = random_arrays(0)
    if zero == "x":
        arrays[0] = np.zeros_like(arrays[0])
    params = [torch.tensor(array, requires_grad=True) for array in arrays]
    groups = [{"params": params[:2]}, {"params": params[2:], "adapt": False, "weight_decay": 0.0}]
    settings = {"momentum": momentum, "trust_coefficient": trust_coefficient, "eps": eps}
    optimizer = LARS(groups, lr=1.0, weight_decay=weight_decay, **settings)
    references = [
        LARSReference(x=array, weight_decay=weight_decay if number < 2 else 0.0, adapt=number < 2, **settings)
        for number, array in enumerate(arrays)
    ]
    for step, rate in enumerate(rates):
        gradients = random_arrays(1 + step)
        if zero == "g":
            gradients[1] = np.zeros_like(gradients[1])
        for number, (p, g, reference) in enumerate(zip(params, gradients, references, strict=True)):
            g = None if number in missing[step] else g
            p.grad = None if g is None else torch.tensor(g)
            reference.step(g, rate)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        for p, reference in zip(params, references, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), reference.x, rtol=1e-11, atol=1e-12)


def test_lars_first_step_is_a_fixed_share_of_the_norm():
    """Without decay, ‖x⁺ − x‖ = γ η ‖x‖ however large the gradient (equation 6)."""
    for scale in (1e-3, 1.0, 1e4):
        x = torch.full((3, 4), 2.0, dtype=torch.float64, requires_grad=True)
        x.grad = scale * torch.ones_like(x)
        LARS([x], lr=0.5, momentum=0.9, weight_decay=0.0, trust_coefficient=0.01, eps=0.0).step()
        torch.testing.assert_close(x.detach(), torch.full_like(x, 2.0 * (1 - 0.5 * 0.01)).detach())


def test_lars_without_adaptation_and_at_constant_rate_is_torch_sgd():
    ours = [torch.tensor(array, requires_grad=True) for array in random_arrays(0)]
    theirs = [torch.tensor(array, requires_grad=True) for array in random_arrays(0)]
    lars = LARS([{"params": ours, "adapt": False}], **KNOBS)
    sgd = torch.optim.SGD(theirs, lr=KNOBS["lr"], momentum=KNOBS["momentum"], weight_decay=KNOBS["weight_decay"])
    for step in range(10):
        for p, q, g in zip(ours, theirs, random_arrays(1 + step), strict=True):
            p.grad, q.grad = torch.tensor(g), torch.tensor(g)
        lars.step()
        sgd.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_lars_leaves_gradients_alone_and_resumes_exactly():
    params = [torch.tensor(array, requires_grad=True) for array in random_arrays(0)]
    optimizer = LARS(params, **KNOBS)

    def step(number, params, optimizer):
        for p, g in zip(params, random_arrays(number), strict=True):
            p.grad = torch.tensor(g)
        optimizer.step()
        for p, g in zip(params, random_arrays(number), strict=True):
            assert torch.equal(p.grad, torch.tensor(g))

    for number in range(1, 4):
        step(number, params, optimizer)
    resumed_params = [p.detach().clone().requires_grad_() for p in params]
    resumed = LARS(resumed_params, **(KNOBS | {"lr": 9.0}))
    resumed.load_state_dict(deepcopy(optimizer.state_dict()))  # torch would share the buffers
    for number in range(4, 8):
        step(number, params, optimizer)
        step(number, resumed_params, resumed)
    for p, q in zip(params, resumed_params, strict=True):
        assert torch.equal(p, q)


def test_lars_refuses_values_out_of_range_and_sparse_gradients():
    weight = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(ValueError, match=r"LARS trust_coefficient: a finite number > 0 is needed, 0 was given"):
        LARS([weight], **(KNOBS | {"trust_coefficient": 0}))
    with pytest.raises(ValueError, match=r"LARS momentum: a number with 0 <= momentum < 1 is needed, 1.0 was given"):
        LARS([{"params": [weight], "momentum": 1.0}], **KNOBS)
    weight.grad = torch.ones(2, 2).to_sparse()
    with pytest.raises(RuntimeError, match="LARS does not support sparse gradients"):
        LARS([weight], **KNOBS).step()
