from typing import Annotated

import pytest
import torch
from pydantic import Field, TypeAdapter, ValidationError
from torch import nn

from decent_core.optim import (
    LARS,
    OPTIMIZERS,
    SCHEDULES,
    AccumAdam,
    AccumAdamW,
    OptimizerSettings,
    Schedule,
    build,
    parameter_groups,
)

ADAM = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
KNOBS = {
    "sgd": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "adam": ADAM,
    "adamw": ADAM,
    "accum_adam": ADAM | {"window": 4, "eps_inside": True},
    "accum_adamw": ADAM | {"window": 4, "eps_inside": False},
    "lars": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "trust_coefficient": 0.02, "eps": 1e-9},
}
CLASSES = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "accum_adam": AccumAdam,
    "accum_adamw": AccumAdamW,
    "lars": LARS,
}


def settings_of(name, **changes):
    """Validated as a composed configuration is: plain lists and numbers in, frozen settings out."""
    return TypeAdapter(OPTIMIZERS[name]).validate_python({"name": name} | KNOBS[name] | changes)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_build_hands_every_knob_to_the_optimizer_of_that_name(name):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    optimizer = build(settings_of(name), parameter_groups(model, KNOBS[name]["weight_decay"]))
    assert type(optimizer) is CLASSES[name]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    for group in optimizer.param_groups:
        for setting, value in KNOBS[name].items():
            if setting != "weight_decay":
                assert group[setting] == (tuple(value) if setting == "betas" else value)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step()
    assert all((p != old).any() for p, old in zip(model.parameters(), before, strict=True))


def test_build_lars_adapts_matrices_only():
    model = nn.Linear(3, 4)
    optimizer = build(settings_of("lars"), parameter_groups(model, 0.1))
    assert [(group["kind"], group["adapt"]) for group in optimizer.param_groups] == [
        ("matrices", True),
        ("vectors", False),
    ]


def test_build_updates_channels_last_kernels_with_contiguous_gradients():
    """What torch's fused CPU kernels get wrong without an error: each element must meet its own gradient."""
    for name in OPTIMIZERS:
        kernels = []
        for memory_format in (torch.contiguous_format, torch.channels_last):
            torch.manual_seed(0)
            kernel = nn.Parameter(torch.randn(4, 3, 2, 2).to(memory_format=memory_format))
            kernel.grad = torch.randn(4, 3, 2, 2)
            group = {"params": [kernel], "kind": "matrices", "weight_decay": 0.1}
            build(settings_of(name), [group]).step()
            kernels.append(kernel.detach())
        torch.testing.assert_close(kernels[0], kernels[1])


def test_settings_choose_their_class_by_name_in_a_union():
    optimizers = TypeAdapter(Annotated[OptimizerSettings, Field(discriminator="name")])
    for name, settings in KNOBS.items():
        settings = optimizers.validate_python({"name": name} | settings)
        assert type(settings) is OPTIMIZERS[name]
        assert settings.name == name
    schedules = TypeAdapter(Annotated[Schedule, Field(discriminator="name")])
    warm_up = {"warmup_steps": 3, "warmup_start": 0.01}
    for name, settings in {
        "constant": {},
        "cosine": warm_up | {"final_fraction": 0.1},
        "inverse_sqrt": warm_up,
        "multistep": warm_up | {"milestones": [5, 9], "gamma": 0.1},
    }.items():
        assert type(schedules.validate_python({"name": name} | settings)) is SCHEDULES[name]


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_settings_have_no_default(name):
    for setting in KNOBS[name]:
        with pytest.raises(ValidationError, match=setting):
            TypeAdapter(OPTIMIZERS[name]).validate_python(
                {"name": name} | {other: value for other, value in KNOBS[name].items() if other != setting}
            )


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("adamw", {"betas": [0.9, 1.2]}, r"optimizer.betas: two numbers .* is needed, \(0.9, 1.2\) was given"),
        ("adam", {"lr": -1e-3}, r"optimizer.lr: a finite number >= 0 is needed, -0.001 was given"),
        ("accum_adam", {"window": 0}, r"optimizer.window: a whole number of steps >= 1 is needed, 0 was given"),
        ("accum_adamw", {"eps": -1.0}, r"optimizer.eps: .* -1.0 was given"),
        ("sgd", {"momentum": 1.0}, r"optimizer.momentum: .* 1.0 was given"),
        ("sgd", {"momentum": 0.0}, r"optimizer.nesterov: a momentum > 0 is needed, optimizer.momentum is 0"),
        ("lars", {"trust_coefficient": 0.0}, r"optimizer.trust_coefficient: .* 0.0 was given"),
        ("lars", {"weight_decay": float("inf")}, r"optimizer.weight_decay: .* inf was given"),
    ],
)
def test_settings_refuse_values_out_of_range(name, changes, message):
    with pytest.raises(ValueError, match=message):
        settings_of(name, **changes)
