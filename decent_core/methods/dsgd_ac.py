"""DSGD-AC, controlled disagreement."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from decent_core.methods.base import Method, Pending, Workers, check_option


@dataclass
class ControlledDisagreement(Method):
    """`awc` or `atc` with less and less mixing, so that workers keep apart (Wang, Johansson, arXiv 2602.02899).

    W' = gamma W + (1 - gamma) I;   gamma = 1 before `start_step`, then (lr / peak lr)^power
    """

    name = "dsgd_ac"
    needs_peak_lr = True

    form: Literal["awc", "atc"] = "awc"
    start_step: int = 0
    power: float = 1.0
    _mixing: Pending | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_option(self, "start_step", self.start_step >= 0, "a step >= 0")
        check_option(self, "power", self.power >= 0, "a power >= 0")

    def gamma(self, workers: Workers) -> float:
        """The share of the mixing in this step."""
        if workers.step < self.start_step or workers.peak_lr == 0:
            return 1.0
        return (workers.lr / workers.peak_lr) ** self.power

    def begin_step(self, workers: Workers) -> None:
        if self.form == "awc":
            self._mixing = workers.start_mix(workers.x)

    def end_step(self, workers: Workers) -> None:
        if self.form == "atc":
            workers.apply_optimizers()
            self._mixing = workers.start_mix(workers.x)
        assert self._mixing is not None, "end_step without begin_step"
        self._combine(workers.x, self._mixing, self.gamma(workers))
        self._mixing = None
        if self.form == "awc":
            workers.apply_optimizers()

    def _combine(self, x: Tensor, mixing: Pending, gamma: float) -> None:
        """x <- gamma W x + (1 - gamma) x."""
        before = x if gamma == 1 else x.clone()  # the mixed rows may be x itself
        x.copy_(mixing.wait())
        if gamma != 1:
            x.lerp_(before, 1 - gamma)
