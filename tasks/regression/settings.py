"""Settings of the regression task. The values stand in `conf/`; none has a default here."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Settings:
    """The problem that all workers share; worker i holds f_i, and the optimum is that of their mean."""

    name: Literal["regression"]

    problem: Literal["least_squares", "quadratic"]  # see tasks/regression/problem.py
    dimension: int  # of x
    equations: int  # a worker's, in least_squares; quadratic has one a dimension
    noise: float  # standard deviation of what no x explains, in least_squares: the larger, the more workers disagree
    data_seed: int

    def __post_init__(self) -> None:
        for key in ("dimension", "equations"):
            if getattr(self, key) < 1:
                raise ValueError(f"task.{key}={getattr(self, key)} must be at least 1.")
        for key in ("noise", "data_seed"):
            if getattr(self, key) < 0:
                raise ValueError(f"task.{key}={getattr(self, key)} must be at least 0.")
