"""Settings of the local optimizers, and what they build. The values stand in `conf/`; none has a default here."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import optim

from decent_core.optim.accum_adam import AccumAdam, AccumAdamW
from decent_core.optim.lars import LARS
from decent_core.optim.ranges import check_ranges


@dataclass(frozen=True)
class SGDSettings:
    """torch's SGD."""

    name: Literal["sgd"]
    lr: float  # the peak; the schedule scales it
    momentum: float
    nesterov: bool
    weight_decay: float

    def __post_init__(self) -> None:
        check_ranges("optimizer.", vars(self))
        if self.nesterov and self.momentum == 0:
            raise ValueError("optimizer.nesterov: a momentum > 0 is needed, optimizer.momentum is 0")


@dataclass(frozen=True)
class AdamSettings:
    """torch's Adam (decay added to the gradient) and AdamW (decoupled decay)."""

    name: Literal["adam", "adamw"]
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float

    def __post_init__(self) -> None:
        check_ranges("optimizer.", vars(self))


@dataclass(frozen=True)
class AccumAdamSettings:
    """`AccumAdam` (decay added to the gradient) and `AccumAdamW` (decoupled decay)."""

    name: Literal["accum_adam", "accum_adamw"]
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    window: int  # steps whose mean gradient the persistent moments take in
    eps_inside: bool

    def __post_init__(self) -> None:
        check_ranges("optimizer.", vars(self))


@dataclass(frozen=True)
class LARSSettings:
    """`LARS`; biases and normalisation layers get the plain rate."""

    name: Literal["lars"]
    lr: float
    momentum: float
    weight_decay: float
    trust_coefficient: float
    eps: float

    def __post_init__(self) -> None:
        check_ranges("optimizer.", vars(self))


OptimizerSettings = SGDSettings | AdamSettings | AccumAdamSettings | LARSSettings
OPTIMIZERS: dict[str, type[OptimizerSettings]] = {
    "sgd": SGDSettings,
    "adam": AdamSettings,
    "adamw": AdamSettings,
    "accum_adam": AccumAdamSettings,
    "accum_adamw": AccumAdamSettings,
    "lars": LARSSettings,
}


def _lars(groups: list[dict[str, Any]], **options: Any) -> LARS:
    return LARS([group | {"adapt": group["kind"] == "matrices"} for group in groups], **options)


# torch's own run on their foreach path, as ours do, so that no optimizer is timed on faster kernels than another.
# Their fused path would be faster on a CPU but reads memory in storage order: a channels-last kernel with a contiguous
# gradient is updated wrongly without an error (torch 2.14).
_BUILDERS: dict[str, Callable[..., optim.Optimizer]] = {
    "sgd": partial(optim.SGD, foreach=True),
    "adam": partial(optim.Adam, foreach=True),
    "adamw": partial(optim.AdamW, foreach=True),
    "accum_adam": AccumAdam,
    "accum_adamw": AccumAdamW,
    "lars": _lars,
}


def build(settings: OptimizerSettings, groups: list[dict[str, Any]]) -> optim.Optimizer:
    """The optimizer of `settings` over `groups`, which are `parameter_groups`' or have its keys."""
    options = {name: value for name, value in vars(settings).items() if name != "name"}
    return _BUILDERS[settings.name](groups, **options)


#: the optimizers by class; each updates a tensor from that tensor's gradient and state alone, without a counter of its
#: own, so that a step may be taken in parts
_NAMES: dict[type[optim.Optimizer], str] = {
    optim.SGD: "sgd",
    optim.Adam: "adam",
    optim.AdamW: "adamw",
    AccumAdam: "accum_adam",
    AccumAdamW: "accum_adamw",
    LARS: "lars",
}


def name_of(optimizer: optim.Optimizer) -> str:
    """The name in `OPTIMIZERS`; for any other optimizer that of its class."""
    return _NAMES.get(type(optimizer), type(optimizer).__name__)


def updates_tensors_alone(optimizer: optim.Optimizer) -> bool:
    """Whether it is known that a step of some tensors, and then one of the others, is the same as one step of all."""
    return type(optimizer) in _NAMES
