import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decent_core.optim import SCHEDULES
from decent_core.optim.schedule import Constant, Cosine, InverseSqrt, MultiStep

GPT2 = Cosine("cosine", warmup_steps=2000, warmup_start=0.0, final_fraction=0.1)
TRANSLATION = InverseSqrt("inverse_sqrt", warmup_steps=4000, warmup_start=0.01)
IMAGENET = Cosine("cosine", warmup_steps=5 * 1251, warmup_start=0.01, final_fraction=1e-5 / 1e-3)


def nanogpt_rate(step, peak=6e-4, final=6e-5, warmup=2000, decay_steps=600_000):
    """karpathy/nanoGPT's get_lr, with the warm-up of the version that starts at 0."""
    if step < warmup:
        return peak * step / warmup
    if step > decay_steps:
        return final
    ratio = (step - warmup) / (decay_steps - warmup)
    return final + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (peak - final)


@pytest.mark.parametrize("step", [0, 1, 1000, 1999, 2000, 2001, 77_777, 301_000, 599_999, 600_000, 700_000])
def test_cosine_is_nanogpts(step):
    assert 6e-4 * GPT2.factor(step, 600_000) == pytest.approx(nanogpt_rate(step), rel=1e-12)


def test_cosine_known_values():
    factors = {step: GPT2.factor(step, 600_000) for step in (0, 1000, 2000, 301_000, 600_000)}
    assert factors == pytest.approx({0: 0.0, 1000: 0.5, 2000: 1.0, 301_000: 0.55, 600_000: 0.1}, abs=1e-15)
    later_nanogpt = Cosine("cosine", warmup_steps=2000, warmup_start=1 / 2001, final_fraction=0.1)
    for step in (0, 1, 999, 1999):
        assert later_nanogpt.factor(step, 600_000) == pytest.approx((step + 1) / 2001, rel=1e-12)


def test_cosine_of_imagenet_starts_at_one_percent_and_ends_at_1e_5():
    rates = {step: 1e-3 * IMAGENET.factor(step, 112_590) for step in (0, 6255, 112_590)}
    assert rates == pytest.approx({0: 1e-5, 6255: 1e-3, 112_590: 1e-5}, rel=1e-12)


def test_inverse_sqrt_known_values():
    factors = [TRANSLATION.factor(step, 137_000) for step in (0, 2000, 4000, 16_000, 100_000)]
    assert factors == pytest.approx([0.01, 0.505, 1.0, 0.5, 0.2], rel=1e-12)


def test_multistep_known_values():
    schedule = MultiStep("multistep", warmup_steps=5, warmup_start=0.1, milestones=(30, 60, 80), gamma=0.1)
    steps = (0, 4, 5, 29, 30, 59, 60, 79, 80, 1000)
    expected = [0.1, 0.82, 1, 1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    assert [schedule.factor(step, 90) for step in steps] == pytest.approx(expected, rel=1e-12)


def test_multistep_is_torchs():
    schedule = MultiStep("multistep", warmup_steps=0, warmup_start=1.0, milestones=(3, 4, 9), gamma=0.5)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    reference = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 4, 9], gamma=0.5)
    for step in range(12):
        assert schedule.factor(step, 12) == reference.get_last_lr()[0]
        optimizer.step()
        reference.step()


def test_constant_is_one():
    assert {Constant("constant").factor(step, 10) for step in (0, 5, 9)} == {1.0}


@given(
    warmup_steps=st.integers(1, 50),
    warmup_start=st.floats(0, 1),
    final=st.floats(0, 1),
    steps=st.integers(1, 120),
    data=st.data(),
)
def test_schedules_rise_in_the_warm_up_and_fall_after_it(warmup_steps, warmup_start, final, steps, data):
    """In any run, also one that is shorter than its warm-up: from the start value up to 1 at most, then down."""
    milestones = tuple(sorted(data.draw(st.sets(st.integers(51, 130)))))
    warm_up = {"warmup_steps": warmup_steps, "warmup_start": warmup_start}
    for schedule in (
        Cosine("cosine", **warm_up, final_fraction=final),
        InverseSqrt("inverse_sqrt", **warm_up),
        MultiStep("multistep", **warm_up, milestones=milestones, gamma=0.3),
    ):
        factors = [schedule.factor(step, steps) for step in range(steps)]
        assert factors[0] == warmup_start
        assert all(0 <= factor <= 1 for factor in factors)
        rising, falling = factors[: warmup_steps + 1], factors[warmup_steps:]
        assert rising == sorted(rising)
        assert falling == sorted(falling, reverse=True)
        if steps > warmup_steps:
            assert factors[warmup_steps] == 1.0


def test_schedules_are_listed_by_their_name():
    for name, schedule in SCHEDULES.items():
        assert schedule.__annotations__["name"].__args__ == (name,)


@pytest.mark.parametrize(
    ("schedule", "settings", "message"),
    [
        (Cosine, {"warmup_steps": -1, "warmup_start": 0.0, "final_fraction": 0.1}, "warmup_steps: .* -1 was given"),
        (Cosine, {"warmup_steps": 1, "warmup_start": 1.5, "final_fraction": 0.1}, "warmup_start: .* 1.5 was given"),
        (Cosine, {"warmup_steps": 1, "warmup_start": 0.0, "final_fraction": -0.1}, "final_fraction: .* -0.1 was given"),
        (InverseSqrt, {"warmup_steps": 0, "warmup_start": 0.01}, "warmup_steps: .* >= 1 is needed"),
        (
            MultiStep,
            {"warmup_steps": 0, "warmup_start": 1.0, "milestones": (60, 30), "gamma": 0.1},
            r"milestones: a list of rising steps > 0 is needed, \(60, 30\) was given",
        ),
        (
            MultiStep,
            {"warmup_steps": 0, "warmup_start": 1.0, "milestones": (30,), "gamma": 0.0},
            "gamma: a factor with 0 < gamma <= 1 is needed, 0.0 was given",
        ),
    ],
)
def test_schedules_refuse_values_out_of_range(schedule, settings, message):
    (name,) = schedule.__annotations__["name"].__args__
    with pytest.raises(ValueError, match=f"schedule.{message}"):
        schedule(name, **settings)
