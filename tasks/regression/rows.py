"""A problem's workers as rows of one tensor, for tables that need many long runs.

What a method sees is the same as in an engine, and so are its lines; what is left out is the turn that each worker's
model takes through the module, forward and backward, which costs a hundred times more than the arithmetic.
"""

import numpy as np
import torch
from torch import Tensor, nn

from decent_core.methods import Done, Method, Pending
from decent_core.topology import Topology
from tasks.regression.problem import Floats, Problem

LARGEST = 1e50  # what has grown so far never comes back


class RowWorkers:
    """Trains all workers of `problem` from x = 0 with SGD of momentum `beta` at the constant rate `lr`."""

    def __init__(self, problem: Problem, method: Method, topology: Topology, lr: float, beta: float) -> None:
        self.problem, self.method, self.topology = problem, method, topology
        self.lr = self.peak_lr = lr
        self.beta, self.step = beta, 0
        self.point = nn.Parameter(torch.zeros(problem.offsets.shape, dtype=torch.float64))
        # SGD treats every element alike, so that one over all rows is one for each of them
        self.optimizer = torch.optim.SGD([self.point], lr, momentum=beta)
        self._hessians, self._offsets = torch.from_numpy(problem.hessians), torch.from_numpy(problem.offsets)
        rounds = [torch.from_numpy(topology.matrix(step)) for step in range(topology.period)]
        self._matrix = lambda number: rounds[number % len(rounds)]

    @property
    def x(self) -> Tensor:
        return self.point.data

    @property
    def momentum(self) -> Tensor:
        return self.optimizer.state[self.point].setdefault("momentum_buffer", torch.zeros_like(self.point))

    def start_mix(self, rows: Tensor, number: int | None = None) -> Done:
        return Done(self.mix(rows, number))

    def mix(self, rows: Tensor, number: int | None = None) -> Tensor:
        return self._matrix(self.step if number is None else number) @ rows

    def mean(self, rows: Tensor) -> Tensor:
        return rows.mean(0)

    def average_gradients(self) -> None:
        self.point.grad = self.gradients().mean(0).expand_as(self.x)

    def gradients(self) -> Tensor:
        assert self.point.grad is not None
        return self.point.grad

    def step_along(self, directions: Tensor) -> None:
        self.point.grad = directions
        self.optimizer.step()

    def apply_optimizers(self) -> None:
        self.optimizer.step()

    def combine_and_adapt(self, mixing: Pending) -> None:
        self.x.copy_(mixing.wait())
        self.apply_optimizers()

    @torch.no_grad()
    def train(self, steps: int) -> Floats:
        """Train for so many steps more; returns x, [N, D]."""
        for _ in range(steps):
            if self.step == 0:
                self.method.start(self)
            self.method.begin_step(self)
            curved = torch.bmm(self._hessians, self.x[:, :, None])
            self.point.grad = curved[..., 0] - self._offsets
            self.method.end_step(self)
            self.step += 1
        return self.x.numpy()

    def settle(self, tolerance: float, limit: int, stride: int = 100) -> Floats:
        """Train until `stride` steps move x by less than `tolerance` of its size; returns x, [N, D].

        Infinite if the method diverges. AssertionError if it has not settled after `limit` steps.
        """
        x = self.train(stride).copy()
        while self.step < limit:
            before, x = x, self.train(stride).copy()
            if not np.abs(x).max() < LARGEST:
                return np.full_like(x, np.inf)
            if np.linalg.norm(x - before) <= tolerance * np.linalg.norm(x):
                return x
        raise AssertionError(f"{self.method.name} over {self.topology.name} at rate {self.lr:g} does not settle")
