"""The problem in numpy: data, optimum, and the points at which methods converge. No torch.

Worker i minimises f_i(x) = 1/2 ||A_i x - b_i||^2, all together F(x) = (1/N) sum_i f_i(x).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tasks.regression.settings import Settings

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A [N, M, D] and b [N, M], float64."""

    A: Floats
    b: Floats

    @cached_property
    def hessians(self) -> Floats:
        """H_i = A_i^T A_i, [N, D, D]: the gradient of f_i at x is H_i x - h_i."""
        return np.einsum("nmd,nme->nde", self.A, self.A)

    @cached_property
    def offsets(self) -> Floats:
        """h_i = A_i^T b_i, [N, D]."""
        return np.einsum("nmd,nm->nd", self.A, self.b)

    @cached_property
    def optimum(self) -> Floats:
        """x*, [D]: the minimiser of F."""
        return np.linalg.solve(self.hessians.mean(0), self.offsets.mean(0))

    def gradients(self, x: Floats) -> Floats:
        """Every worker's gradient at its own x, [N, D] -> [N, D]."""
        return np.einsum("nde,ne->nd", self.hessians, x) - self.offsets

    @property
    def disagreement(self) -> float:
        """b^2 of [L]: the mean over workers of ||grad f_i(x*)||^2."""
        return float((self.gradients(np.tile(self.optimum, (len(self.A), 1))) ** 2).sum(1).mean())

    def bias(self, x: Floats) -> float:
        """The mean over workers of ||x_i - x*||^2, for x [N, D]."""
        return float(((x - self.optimum) ** 2).sum(1).mean())

    def fixed_point(self, W: Floats, C: Floats, lr: float) -> Floats:
        """The x [N, D] with (I - W) x = -lr C grad f(x), for matrices W and C [N, N]; see `coefficients`."""
        n, dimension = self.offsets.shape
        blocks = np.einsum("ij,jde->idje", lr * C, self.hessians)
        blocks += np.einsum("ij,de->idje", np.eye(n) - W, np.eye(dimension))
        return np.linalg.solve(blocks.reshape(n * dimension, -1), (lr * C @ self.offsets).ravel()).reshape(n, dimension)


def coefficients(method: str, W: Floats, beta: float) -> Floats:
    """The C of `fixed_point` for a method over W with momentum `beta` (0: plain SGD).

    `atc`: x = W (x - lr/(1 - beta) grad f); `awc` the same without the W before the gradient; `da`:
    x = W (x - lr (I - beta W)^-1 grad f); `decentlam` and `qg`: x = W (x - lr grad f), whatever beta is.
    """
    identity = np.eye(len(W))
    table = {
        "atc": W / (1 - beta),
        "awc": identity / (1 - beta),
        "da": W @ np.linalg.inv(identity - beta * W),
        "decentlam": W,
        "qg": W,
    }
    return table[method]


def draw(settings: Settings, world_size: int) -> Problem:
    """The data, which depend on `data_seed` and the number of workers.

    least_squares ([L] fig. 2): A_i standard normal, b_i = A_i x + noise for one x. quadratic: f_i is
    1/2 sum_d a_id (x_d - c_id)^2 with a uniform in [1/2, 3/2] and c standard normal.
    """
    random = np.random.default_rng(settings.data_seed)
    if settings.problem == "quadratic":
        roots = np.sqrt(random.uniform(0.5, 1.5, (world_size, settings.dimension)))
        centres = random.standard_normal(roots.shape)
        return Problem(roots[:, :, None] * np.eye(settings.dimension), roots * centres)
    A = random.standard_normal((world_size, settings.equations, settings.dimension))
    x = random.standard_normal(settings.dimension)
    return Problem(A, A @ x + settings.noise * random.standard_normal(A.shape[:2]))
