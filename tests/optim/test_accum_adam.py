import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decent_core.optim import AccumAdam, AccumAdamW
from decent_core.optim.accum_adam import pieces
from tests.support.reference_optim import AccumAdamReference

SHAPES = [(5, 3), (4,), (), (2, 3, 2, 2), (0,)]
KNOBS = {"lr": 3e-3, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}


def random_tensors(seed, shapes=SHAPES, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def parameters(seed, shapes=SHAPES, dtype=torch.float64):
    return [tensor.requires_grad_() for tensor in random_tensors(seed, shapes, dtype)]


def set_gradients(params, seed, missing=()):
    """Gradients of step `seed`; the tensors numbered in `missing` get none."""
    gradients = random_tensors(1000 + seed, [p.shape for p in params], params[0].dtype)
    for number, (p, g) in enumerate(zip(params, gradients, strict=True)):
        p.grad = None if number in missing else g


def train(optimizer, params, steps):
    for step in steps:
        set_gradients(params, step)
        optimizer.step()


def assert_same_bits(left, right):
    for a, b in zip(left, right, strict=True):
        assert torch.equal(a, b)


@settings(max_examples=60, deadline=None)
@given(
    window=st.sampled_from([1, 2, 3, 8]),
    beta1=st.sampled_from([0.0, 0.4, 0.9, 0.974]),
    beta2=st.sampled_from([0.0, 0.95, 0.999]),
    eps=st.sampled_from([1e-8, 1e-3]),
    weight_decays=st.tuples(st.sampled_from([0.0, 0.1]), st.sampled_from([0.0, 0.03])),
    cls=st.sampled_from([AccumAdam, AccumAdamW]),
    eps_inside=st.booleans(),
    foreach=st.booleans(),
    missing=st.lists(st.sets(st.integers(0, 4)), min_size=20, max_size=20),
    rates=st.lists(st.sampled_from([0.0, 1e-3, 0.05]), min_size=20, max_size=20),
)
def test_accum_adam_is_the_reference(
    window, beta1, beta2, eps, weight_decays, cls, eps_inside, foreach, missing, rates
):
    """Over 20 steps with a new rate in each, two parameter groups, and tensors that miss the gradient now and then."""
    params = parameters(0)
    groups = [
        {"params": params[:2], "weight_decay": weight_decays[0]},
        {"params": params[2:], "weight_decay": weight_decays[1], "window": window + 1},
    ]
    settings = {"betas": (beta1, beta2), "eps": eps, "eps_inside": eps_inside}
    optimizer = cls(groups, lr=1.0, weight_decay=0.5, window=window, foreach=foreach, **settings)
    references = [
        AccumAdamReference(
            x=p.detach().numpy().copy(),
            k=group.get("window", window),
            weight_decay=group["weight_decay"],
            decoupled=cls is AccumAdamW,
            **settings,
        )
        for group in groups
        for p in group["params"]
    ]
    for step in range(20):
        set_gradients(params, step, missing[step])
        for group in optimizer.param_groups:
            group["lr"] = rates[step]
        for p, reference in zip(params, references, strict=True):
            reference.step(None if p.grad is None else p.grad.numpy(), rates[step])
        optimizer.step()
        for p, reference in zip(params, references, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), reference.x, rtol=1e-11, atol=1e-11)
    for p, reference in zip(params, references, strict=True):
        assert optimizer.state[p].get("step", 0) == reference.t


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("cls", [AccumAdam, AccumAdamW])
def test_accum_adam_with_window_one_is_torch_bit_for_bit(cls, foreach, weight_decay, dtype):
    shapes = [(33, 17), (65,), (), (3, 2, 3, 3)]
    settings = KNOBS | {"weight_decay": weight_decay}
    ours, theirs = parameters(0, shapes, dtype), parameters(0, shapes, dtype)
    optimizer = cls(ours, window=1, foreach=foreach, **settings)
    torch_cls = {AccumAdam: torch.optim.Adam, AccumAdamW: torch.optim.AdamW}[cls]
    torch_optimizer = torch_cls(theirs, foreach=False, **settings)
    for step in range(50):
        missing = {1} if step % 3 == 0 else set()
        rate = 1e-2 / (1 + step)
        for params, each in ((ours, optimizer), (theirs, torch_optimizer)):
            set_gradients(params, step, missing)
            each.param_groups[0]["lr"] = rate
            each.step()
        assert_same_bits(ours, theirs)
    for p, q in zip(ours, theirs, strict=True):
        assert torch.equal(optimizer.state[p]["exp_avg"], torch_optimizer.state[q]["exp_avg"])
        assert torch.equal(optimizer.state[p]["exp_avg_sq"], torch_optimizer.state[q]["exp_avg_sq"])


@pytest.mark.parametrize("eps_inside", [False, True])
@pytest.mark.parametrize("cls", [AccumAdam, AccumAdamW])
def test_accum_adam_foreach_is_the_single_tensor_path(cls, eps_inside):
    """Bit for bit on a CPU, with tensors of two dtypes and enough elements for several pieces."""
    shapes = [(300, 500), (300, 500), (7,), (1000, 300), (64, 3, 3, 3)]

    def run(foreach):
        params = parameters(0, shapes, torch.float32) + parameters(1, [(6, 2)], torch.float64)
        params[4].data = params[4].data.to(memory_format=torch.channels_last)
        optimizer = cls(params, window=3, eps_inside=eps_inside, foreach=foreach, **KNOBS)
        for step in range(7):
            set_gradients(params[:5], step, {2} if step == 1 else ())
            set_gradients(params[5:], step)
            optimizer.step()
        return params

    assert_same_bits(run(False), run(True))


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=12), limit=st.integers(1, 40))
def test_accum_adam_pieces_keep_all_in_order_and_are_bounded(sizes, limit):
    tensors = [(torch.empty(size),) * 5 for size in sizes]
    cut = list(pieces(tensors, limit))
    assert [id(operands) for piece in cut for operands in piece] == [id(operands) for operands in tensors]
    for piece in cut:
        assert len(piece) == 1 or sum(operands[0].numel() for operands in piece) <= limit


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("cls", [AccumAdam, AccumAdamW])
def test_accum_adam_never_writes_gradients(cls, foreach):
    params = parameters(0)
    optimizer = cls(params, window=2, foreach=foreach, **KNOBS)
    for step in range(4):
        set_gradients(params, step)
        before = [(p.grad, p.grad.clone()) for p in params]
        optimizer.step()
        for p, (gradient, value) in zip(params, before, strict=True):
            assert p.grad is gradient
            assert torch.equal(gradient, value)


def test_accum_adam_keeps_three_buffers_a_parameter():
    params = parameters(0)
    optimizer = AccumAdam(params, window=4, **KNOBS)
    train(optimizer, params, range(6))
    for p in params:
        buffers = {name: value for name, value in optimizer.state[p].items() if torch.is_tensor(value)}
        assert set(buffers) == {"exp_avg", "exp_avg_sq", "window_mean"}
        assert all(buffer.shape == p.shape and buffer.dtype == p.dtype for buffer in buffers.values())


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("cls", [AccumAdam, AccumAdamW])
@pytest.mark.parametrize("stop", [1, 4, 5, 7])
def test_accum_adam_state_dict_continues_exactly(cls, foreach, stop):
    """Also within a window (of 4 steps), with one tensor a step behind, through a file read without pickled code."""
    params = parameters(0)
    optimizer = cls(params, window=4, foreach=foreach, **KNOBS)
    set_gradients(params, 0, {1})
    optimizer.step()
    train(optimizer, params, range(1, stop))

    file = io.BytesIO()
    torch.save({"params": [p.detach() for p in params], "optimizer": optimizer.state_dict()}, file)
    train(optimizer, params, range(stop, 12))

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed_params = [p.requires_grad_() for p in saved["params"]]
    resumed = cls(resumed_params, window=1, foreach=foreach, lr=1.0, betas=(0.5, 0.5), eps=1.0, weight_decay=0.0)
    resumed.load_state_dict(saved["optimizer"])
    train(resumed, resumed_params, range(stop, 12))

    assert_same_bits(params, resumed_params)
    for p, q in zip(params, resumed_params, strict=True):
        assert optimizer.state[p].keys() == resumed.state[q].keys()
        assert all(
            torch.equal(torch.as_tensor(v), torch.as_tensor(resumed.state[q][n])) for n, v in optimizer.state[p].items()
        )


def test_accum_adam_skips_the_step_that_a_scaler_finds_infinite():
    """Under a scaler the finite steps give what they give without one, and the window does not see the others."""
    scaled_params, plain_params = parameters(0, [(5,)]), parameters(0, [(5,)])
    scaled, plain = (AccumAdam(params, window=2, **KNOBS) for params in (scaled_params, plain_params))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1000)
    for step, target in enumerate(random_tensors(5, [(5,)] * 6)):
        for params, optimizer, scale in ((scaled_params, scaled, scaler), (plain_params, plain, None)):
            optimizer.zero_grad()
            loss = ((params[0] - target) ** 2).sum()
            if step == 2:
                loss = loss * torch.inf
            if scale is None:
                if step != 2:
                    loss.backward()
                    optimizer.step()
            else:
                scale.scale(loss).backward()
                scale.step(optimizer)
                scale.update()
    assert scaler.get_scale() == 4.0
    assert scaled.state[scaled_params[0]]["step"] == 5
    assert_same_bits(scaled_params, plain_params)


def test_accum_adam_returns_the_closure_loss():
    params = parameters(0, [(3,)])
    optimizer = AccumAdamW(params, window=1, **KNOBS)

    def closure():
        optimizer.zero_grad()
        loss = (params[0] ** 2).sum()
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert optimizer.step(closure) < first


def test_accum_adam_without_any_gradient_changes_nothing():
    params = parameters(0)
    AccumAdamW(params, window=2, **KNOBS).step()
    assert_same_bits(params, parameters(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": -1.0}, r"AccumAdam lr: a finite number >= 0 is needed, -1.0 was given"),
        ({"betas": (0.9, 1.0)}, r"AccumAdam betas: two numbers with 0 <= beta < 1 is needed, \(0.9, 1.0\) was given"),
        ({"eps": float("nan")}, r"AccumAdam eps: .* nan was given"),
        ({"weight_decay": -0.1}, r"AccumAdam weight_decay: .* -0.1 was given"),
        ({"window": 0}, r"AccumAdam window: a whole number of steps >= 1 is needed, 0 was given"),
        ({"window": 2.0}, r"AccumAdam window: .* 2.0 was given"),
    ],
)
def test_accum_adam_refuses_values_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        AccumAdam(parameters(0), **(KNOBS | {"window": 2} | settings))
    with pytest.raises(ValueError, match=message):
        AccumAdam([{"params": parameters(0), **settings}], **(KNOBS | {"window": 2}))


def test_accum_adam_refuses_sparse_gradients_and_complex_parameters():
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="AccumAdam does not support sparse gradients"):
        AccumAdam(embedding.parameters(), window=1, **KNOBS).step()
    weight = torch.zeros(2, dtype=torch.complex64, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    with pytest.raises(RuntimeError, match="AccumAdamW does not support complex parameters"):
        AccumAdamW([weight], window=1, **KNOBS).step()
