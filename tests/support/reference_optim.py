"""Local optimizers in numpy, one tensor at a time, written like the papers' equations. Slow and obvious."""

from dataclasses import dataclass
from math import ceil

import numpy as np


@dataclass
class AccumAdamReference:
    """AccumAdam(W) of one tensor (arXiv 2410.11998)."""

    x: np.ndarray
    k: int
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    decoupled: bool
    eps_inside: bool = False

    def __post_init__(self):
        self.t = 0
        self.M, self.V, self.b = np.zeros_like(self.x), np.zeros_like(self.x), np.zeros_like(self.x)

    def step(self, g, lr):
        if g is None:
            return
        (beta1, beta2), k = self.betas, self.k
        self.t = self.t + 1
        r = ceil(self.t / k)
        if self.decoupled:
            self.x = (1 - lr * self.weight_decay) * self.x
        else:
            g = g + self.weight_decay * self.x
        m = beta1 * self.M + (1 - beta1) * g
        v = beta2 * self.V + (1 - beta2) * g**2
        m_hat = m / (1 - beta1**r)
        v_hat = v / (1 - beta2**r)
        denominator = np.sqrt(v_hat + self.eps) if self.eps_inside else np.sqrt(v_hat) + self.eps
        self.x = self.x - lr * m_hat / denominator
        self.b = self.b + g / k
        if self.t % k == 0:
            self.M = beta1 * self.M + (1 - beta1) * self.b
            self.V = beta2 * self.V + (1 - beta2) * self.b**2
            self.b = np.zeros_like(self.x)


@dataclass
class LARSReference:
    """LARS of one tensor (arXiv 1708.03888, equation 6 and algorithm 1)."""

    x: np.ndarray
    momentum: float
    weight_decay: float
    trust_coefficient: float
    eps: float
    adapt: bool

    def __post_init__(self):
        self.v = np.zeros_like(self.x)

    def step(self, g, lr):
        if g is None:
            return
        x_norm, g_norm = np.sqrt((self.x**2).sum()), np.sqrt((g**2).sum())
        local_rate = 1.0
        if self.adapt and x_norm > 0 and g_norm > 0:
            local_rate = self.trust_coefficient * x_norm / (g_norm + self.weight_decay * x_norm + self.eps)
        self.v = self.momentum * self.v + lr * local_rate * (g + self.weight_decay * self.x)
        self.x = self.x - self.v
