"""Ranges of the settings of optimizers and schedules, in one table: both refuse the same values."""

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _at_least_zero(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _below_one(value: Any) -> bool:
    return _is_number(value) and 0 <= value < 1


def _fraction(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _two_betas(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(_below_one(beta) for beta in value)


def _rising_steps(value: Any) -> bool:
    if not isinstance(value, tuple | list) or not all(_is_count(step) for step in value):
        return False
    return all(before < after for before, after in zip([0, *value], value, strict=False))


# setting: (whether a value is in range, the range in words)
RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "lr": (_at_least_zero, "a finite number >= 0"),
    "betas": (_two_betas, "two numbers with 0 <= beta < 1"),
    "momentum": (_below_one, "a number with 0 <= momentum < 1"),
    "eps": (_at_least_zero, "a finite number >= 0"),
    "weight_decay": (_at_least_zero, "a finite number >= 0"),
    "window": (lambda value: _is_count(value) and value >= 1, "a whole number of steps >= 1"),
    "trust_coefficient": (lambda value: _is_number(value) and value > 0, "a finite number > 0"),
    "warmup_steps": (lambda value: _is_count(value) and value >= 0, "a whole number of steps >= 0"),
    "warmup_start": (_fraction, "a fraction of the peak rate from 0 to 1"),
    "final_fraction": (_fraction, "a fraction of the peak rate from 0 to 1"),
    "milestones": (_rising_steps, "a list of rising steps > 0"),
    "gamma": (lambda value: _fraction(value) and value > 0, "a factor with 0 < gamma <= 1"),
}


def check_ranges(owner: str, settings: Mapping[str, Any]) -> None:
    """Raises ValueError for the first setting that is out of its range; names without a range in the table pass.

    `owner` stands before the setting's name in the message: `optimizer.`, `schedule.` or a class name and a space.
    """
    for name, value in settings.items():
        holds, needed = RANGES.get(name, (None, ""))
        if holds is not None and not holds(value):
            raise ValueError(f"{owner}{name}: {needed} is needed, {value!r} was given")
