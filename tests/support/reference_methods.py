"""The methods in dense numpy, written like the equations: x, m, ... are [N, D] arrays, mixing is W @ x.

`grad(x)` gives all workers' gradients with weight decay, `grad(x, at)` with the decay of another point; `w(t)` is the
round of step t, `lr(t)` the rate. Every function yields x after each step, [N, D]. All start from the x given.
"""

import numpy as np


class Momentum:
    """m <- beta m + g for all workers; the direction is m, or g + beta m (Nesterov)."""

    def __init__(self, beta: float, nesterov: bool = False):
        self.beta, self.nesterov, self.m = beta, nesterov, 0.0

    def __call__(self, g: np.ndarray) -> np.ndarray:
        self.m = self.beta * self.m + g
        return g + self.beta * self.m if self.nesterov else self.m


def atc(x, grad, w, lr, steps, beta=0.0, nesterov=False):
    d = Momentum(beta, nesterov)
    for t in range(steps):
        x = w(t) @ (x - lr(t) * d(grad(x)))
        yield x


def awc(x, grad, w, lr, steps, beta=0.0, nesterov=False):
    d = Momentum(beta, nesterov)
    for t in range(steps):
        x = w(t) @ x - lr(t) * d(grad(x, w(t) @ x))
        yield x


def allreduce(x, grad, w, lr, steps, beta=0.0, nesterov=False):
    d = Momentum(beta, nesterov)
    for t in range(steps):
        x = x - lr(t) * d(grad(x).mean(0, keepdims=True))
        yield x


def decentlam(x, grad, w, lr, steps, beta=0.0, nesterov=False):
    d = Momentum(beta, nesterov)
    for t in range(steps):
        eta, g = lr(t), grad(x)
        tilde = (x - w(t) @ (x - eta * g)) / eta if eta else w(t) @ g
        x = x - eta * d(tilde)
        yield x


def da(x, grad, w, lr, steps, beta=0.0, nesterov=False):
    m = 0 * x
    for t in range(steps):
        g = grad(x)
        u = beta * m + g
        x, m = w(t) @ x - lr(t) * w(t) @ (g + beta * u if nesterov else u), w(t) @ u
        yield x


def qg(x, grad, w, lr, steps, beta=0.0, mu=None, nesterov=False):
    q, mu = 0 * x, beta if mu is None else mu
    for t in range(steps):
        g = grad(x)
        u = g + beta * q
        new = w(t) @ (x - lr(t) * (g + beta * u if nesterov else u))
        if lr(t):
            q = mu * q + (1 - mu) * (x - new) / lr(t)
        x = new
        yield x


def d2(x, grad, w, lr, steps, beta=0.0, damped=False):
    d, old, eta_d = Momentum(beta), x, 0 * x
    for t in range(steps):
        v = (np.eye(len(x)) + w(t)) / 2 if damped else w(t)
        new_eta_d = lr(t) * d(grad(x))
        x, old, eta_d = v @ (2 * x - old - new_eta_d + eta_d), x, new_eta_d
        yield x


def gradient_tracking(x, grad, w, lr, steps, beta=0.0, nesterov=False):
    d = Momentum(beta, nesterov)
    g = y = grad(x)
    for t in range(steps):
        x = w(t) @ x - lr(t) * d(y)
        y, g = w(t) @ y + grad(x) - g, grad(x)
        yield x


def sgp(x, grad, w, lr, steps, beta=0.0, nesterov=False):
    """`w` may be only column-stochastic; yields z = x / weight."""
    d, weight = Momentum(beta, nesterov), np.ones((len(x), 1))
    for t in range(steps):
        z = x / weight
        x, weight = w(t) @ (x - lr(t) * d(grad(z))), w(t) @ weight
        yield x / weight


def local_sgd(x, grad, w, lr, steps, beta=0.0, every=8):
    d, meeting = Momentum(beta), 0
    for t in range(steps):
        x = x - lr(t) * d(grad(x))
        if (t + 1) % every == 0:
            x, meeting = w(meeting) @ x, meeting + 1
        yield x


def diloco(x, grad, w, lr, steps, beta=0.0, every=50, outer_lr=0.7, outer_momentum=0.9):
    d, x0, u = Momentum(beta), x.mean(0), 0.0
    for t in range(steps):
        x = x - lr(t) * d(grad(x))
        if (t + 1) % every == 0:
            delta = x0 - x.mean(0)
            u = outer_momentum * u + delta
            x0 = x0 - outer_lr * (delta + outer_momentum * u)
            x = np.tile(x0, (len(x), 1))
        yield x


def noloco(x, grad, w, lr, steps, beta=0.0, every=50, outer_lr=0.7, outer_momentum=0.5, gamma=0.7):
    d, x0, u, meeting = Momentum(beta), x, 0 * x, 0
    for t in range(steps):
        x = x - lr(t) * d(grad(x))
        if (t + 1) % every == 0:
            v = w(meeting)
            u = outer_momentum * u - outer_lr * v @ (x0 - x) - gamma * (x0 - v @ x0)
            x = x0 = x0 + u
            meeting += 1
        yield x


def dsgd_ac(x, grad, w, lr, steps, beta=0.0, form="awc", start_step=0, power=1.0):
    d, peak = Momentum(beta), max(map(lr, range(steps)))
    for t in range(steps):
        gamma = 1.0 if t < start_step else (lr(t) / peak) ** power
        v = gamma * w(t) + (1 - gamma) * np.eye(len(x))
        x = v @ x - lr(t) * d(grad(x, v @ x)) if form == "awc" else v @ (x - lr(t) * d(grad(x)))
        yield x


def slowmo(x, grad, w, lr, steps, beta=0.0, base="atc", tau=12, alpha=1.0, slow_beta=0.5):
    assert base == "atc"
    d, x0, u = Momentum(beta), x.mean(0), 0.0
    for t in range(steps):
        x = w(t) @ (x - lr(t) * d(grad(x)))
        if (t + 1) % tau == 0:
            eta, delta = lr(t), x0 - x.mean(0)
            u = slow_beta * u + delta / eta
            x0 = x0 - alpha * eta * u
            x = np.tile(x0, (len(x), 1))
        yield x
