"""Learning-rate schedules: pure functions of the step, so that nothing of them is saved or restored.

`factor(step, steps)` is what the peak rate is multiplied by in step `step` (from 0) of a run of `steps` steps. A run
may be shorter than the warm-up; it then ends below the peak.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from decent_core.optim.ranges import check_ranges


def _warm_up(step: int, warmup_steps: int, warmup_start: float) -> float:
    """The line from `warmup_start` in step 0 to 1 in step `warmup_steps`, and 1 from there on."""
    return warmup_start + (1 - warmup_start) * step / warmup_steps if step < warmup_steps else 1.0


@dataclass(frozen=True)
class Constant:
    """The peak rate in every step."""

    name: Literal["constant"]

    def factor(self, step: int, steps: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Cosine:
    """A linear warm-up, then half a cosine that reaches `final_fraction` when all steps are done.

    nanoGPT's: with `warmup_start` 0 its rate in step 0 is 0; with 1 / (warmup_steps + 1) it is its later variant.
    """

    name: Literal["cosine"]
    warmup_steps: int
    warmup_start: float  # fraction of the peak rate in step 0
    final_fraction: float  # fraction of the peak rate

    def __post_init__(self) -> None:
        check_ranges("schedule.", vars(self))

    def factor(self, step: int, steps: int) -> float:
        if step < self.warmup_steps:
            return _warm_up(step, self.warmup_steps, self.warmup_start)
        if step >= steps:
            return self.final_fraction
        done = (step - self.warmup_steps) / (steps - self.warmup_steps)
        return self.final_fraction + (1 - self.final_fraction) * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class InverseSqrt:
    """A linear warm-up, then sqrt(warmup_steps / step), whatever the length of the run (Vaswani et al. 2017, eq. 3)."""

    name: Literal["inverse_sqrt"]
    warmup_steps: int
    warmup_start: float  # fraction of the peak rate in step 0

    def __post_init__(self) -> None:
        check_ranges("schedule.", vars(self))
        if self.warmup_steps == 0:
            raise ValueError("schedule.warmup_steps: inverse_sqrt decays from the end of its warm-up, >= 1 is needed")

    def factor(self, step: int, steps: int) -> float:
        if step < self.warmup_steps:
            return _warm_up(step, self.warmup_steps, self.warmup_start)
        return math.sqrt(self.warmup_steps / step)


@dataclass(frozen=True)
class MultiStep:
    """A linear warm-up, and a multiplication by `gamma` from each milestone on."""

    name: Literal["multistep"]
    warmup_steps: int
    warmup_start: float  # fraction of the peak rate in step 0
    milestones: tuple[int, ...]  # steps
    gamma: float

    def __post_init__(self) -> None:
        check_ranges("schedule.", vars(self))

    def factor(self, step: int, steps: int) -> float:
        passed = bisect_right(self.milestones, step)
        return _warm_up(step, self.warmup_steps, self.warmup_start) * self.gamma**passed


Schedule = Constant | Cosine | InverseSqrt | MultiStep
SCHEDULES: dict[str, type[Schedule]] = {
    "constant": Constant,
    "cosine": Cosine,
    "inverse_sqrt": InverseSqrt,
    "multistep": MultiStep,
}
