"""The toy task trained again in dense numpy: workers as rows of a dict of arrays, mixing as a product with W(t).

Written like the equations, slow and without torch; the engines must agree with it step by step.
"""

import numpy as np

from tests.support.toy import BATCH, ToyTask, uses_sometimes

SHAPES = ("w1", "b1", "w2", "unused", "sometimes")
DECAYED = ("w1", "w2")  # matrices


def gradients(x: dict, frozen: np.ndarray, task: ToyTask, step: int, worker: int) -> dict:
    """Backpropagation by hand; None where the loss does not depend on the parameter."""
    batch = task.batch(step, worker)
    inputs, targets, used = batch["x"].numpy(), batch["y"].numpy(), uses_sometimes(step, worker)
    hidden = np.tanh(inputs @ x["w1"] + x["b1"])
    error = hidden @ x["w2"] + frozen + (x["sometimes"] if used else 0) - targets
    before = (error @ x["w2"].T) * (1 - hidden**2)
    found = {"w1": inputs.T @ before, "b1": before.sum(0), "w2": hidden.T @ error}
    if used:
        found["sometimes"] = error.sum(0)
    return {name: found[name] / BATCH if name in found else None for name in SHAPES}


def clip(g: dict, norm: float | None) -> dict:
    """Scale the worker's gradient to at most this global norm."""
    if norm is None:
        return g
    total = np.sqrt(sum((v**2).sum() for v in g.values() if v is not None))
    scale = min(1.0, norm / (total + 1e-6))
    return {name: None if v is None else v * scale for name, v in g.items()}


class Local:
    """One worker's optimizer: `step` moves x in place along the gradient."""

    def __init__(self, name: str, lr: float, decay: float, beta=0.9, betas=(0.9, 0.99), eps=1e-8, k=3):
        self.name, self.lr, self.decay, self.beta, self.betas, self.eps = name, lr, decay, beta, betas, eps
        self.k = k if name.startswith("accum") else 1
        self.state: dict = {}

    def step(self, x: dict, g: dict) -> None:
        for name, gradient in g.items():
            if gradient is not None:
                decay = self.decay if name in DECAYED else 0.0
                (self.sgd if self.name == "sgd" else self.adam)(x, name, gradient, decay)

    def sgd(self, x: dict, name: str, g: np.ndarray, decay: float) -> None:
        g = g + decay * x[name]
        m = self.state.get(name)
        self.state[name] = m = g if m is None else self.beta * m + g
        x[name] = x[name] - self.lr * m

    def adam(self, x: dict, name: str, g: np.ndarray, decay: float) -> None:
        """AccumAdam(W) with window k; k = 1 is Adam(W)."""
        (b1, b2), k = self.betas, self.k
        s = self.state.setdefault(name, {"t": 0, "M": 0.0 * g, "V": 0.0 * g, "b": 0.0 * g})
        if self.name.endswith("w"):
            x[name] = (1 - self.lr * decay) * x[name]
        else:
            g = g + decay * x[name]
        s["t"] += 1
        r = -(-s["t"] // k)
        m, v = b1 * s["M"] + (1 - b1) * g, b2 * s["V"] + (1 - b2) * g**2
        x[name] = x[name] - self.lr * (m / (1 - b1**r)) / (np.sqrt(v / (1 - b2**r)) + self.eps)
        s["b"] = s["b"] + g / k
        if s["t"] % k == 0:
            s["M"], s["V"] = b1 * s["M"] + (1 - b1) * s["b"], b2 * s["V"] + (1 - b2) * s["b"] ** 2
            s["b"] = 0.0 * g


def mixed(xs: list[dict], w: np.ndarray) -> list[dict]:
    """x_i <- sum_j w_ij x_j for every tensor."""
    together = {name: np.tensordot(w, np.stack([x[name] for x in xs]), 1) for name in SHAPES}
    return [{name: values[i] for name, values in together.items()} for i in range(len(xs))]


def mean_gradients(gs: list[dict]) -> list[dict]:
    """The mean over workers; no gradient counts as zero, none anywhere stays none."""
    mean: dict = {}
    for name in SHAPES:
        present = [g[name] for g in gs if g[name] is not None]
        mean[name] = sum(present) / len(gs) if present else None
    return [mean for _ in gs]


def train(
    xs: list[dict], frozen, task, topology, method: str, local: list[Local], lr, steps: int, clip_norm=None
) -> list[list[dict]]:
    """All workers' parameters after each step; xs are the workers' initial parameters."""
    history = []
    for t in range(steps):
        w = topology.matrix(t)
        gs = [gradients(x, frozen, task, t, i) for i, x in enumerate(xs)]
        if method == "allreduce":
            gs = mean_gradients(gs)
        gs = [clip(g, clip_norm) for g in gs]
        xs = mixed(xs, w) if method == "awc" else [dict(x) for x in xs]
        for worker, x, g in zip(local, xs, gs, strict=True):
            worker.lr = lr(t)
            worker.step(x, g)
        if method == "atc":
            xs = mixed(xs, w)
        history.append([dict(x) for x in xs])
    return history
