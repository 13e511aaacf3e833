"""AWC, combine while adapting."""

from dataclasses import dataclass, field

from decent_core.methods.base import Method, Pending, Workers


@dataclass
class CombineWhileAdapting(Method):
    """The exchange overlaps with the forward and backward pass ([P] Wang et al., ICLR 2025, eq. 2).

    x_i <- sum_j w_ij x_j - lr d_i(x_i):  the gradient is taken at the un-mixed x_i, the optimizer steps from the mixed
    point. With `adam` this is DAdam, with `accum_adam` AccumAdam.
    """

    name = "awc"
    mixes_model_first = True
    _mixing: Pending | None = field(default=None, init=False, repr=False)

    def begin_step(self, workers: Workers) -> None:
        self._mixing = workers.start_mix(workers.x)

    def end_step(self, workers: Workers) -> None:
        assert self._mixing is not None, "end_step without begin_step"
        workers.combine_and_adapt(self._mixing)
        self._mixing = None
