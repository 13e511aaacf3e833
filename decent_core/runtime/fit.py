"""The runtime model inverted: which computing and communication times explain measured strong scaling.

The global batch is the same for every N. A worker computes compute/N + fixed a step, one third of compute/N forward
and two thirds backward; an All-Reduce of one bucket takes gamma, a gossip round omega gamma, omega by topology. All on
a grid: few measurements leave more than one explanation, and the grid shows all of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from decent_core.topology.rounds import Floats

Value = float | Floats

COMPUTE_STEPS, FIXED_STEPS, GAMMA_STEPS, OMEGA_STEPS = 61, 31, 101, 40
#: a parameter is as good as the best if the rms of the residuals grows by no more than this
TOLERANCE = 0.01


@dataclass(frozen=True)
class Estimate:
    """The best value on the grid, and the range of values with which the others can make up for it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """Times in the unit of the measurements; `rms`, of predicted / measured - 1, is a fraction.

    `allreduce` and `gossip` are the predicted times, keyed as the measured ones.
    """

    compute: Estimate
    fixed: Estimate
    gamma: Estimate
    omega: dict[str, Estimate]
    rms: float
    allreduce: dict[int, float]
    gossip: dict[str, dict[int, float]]


def fit(
    allreduce: Mapping[int, float],
    gossip: Mapping[str, Mapping[int, float]],
    buckets: int,
    with_fixed: bool = True,
) -> Fit:
    """Fit measured times of an iteration, by number of workers, for All-Reduce and for each gossip topology.

    Minimises the mean square of relative residuals over all measurements. `with_fixed=False` sets fixed to 0.
    """
    fastest = {n: min(times[n] for times in gossip.values() if n in times) for n in allreduce}
    compute = np.linspace(0.3, 1.1, COMPUTE_STEPS) * min(n * time for n, time in fastest.items())
    fixed = np.linspace(0, min(fastest.values()), FIXED_STEPS) if with_fixed else np.zeros(1)
    gamma = np.geomspace(0.02, 1.2, GAMMA_STEPS) * max(allreduce.values()) / buckets
    omega = np.linspace(1 / OMEGA_STEPS, 1, OMEGA_STEPS)
    grid = (compute[:, None, None], fixed[None, :, None], gamma[None, None, :])
    wide = (grid[0][..., None], grid[1][..., None], grid[2][..., None])
    error = _squares(allreduce, lambda n: _allreduce(*grid, n, buckets))
    errors = {  # [compute, fixed, gamma, omega]
        name: _squares(times, lambda n: _gossip(*wide, omega, n, buckets)) for name, times in gossip.items()
    }
    total = error + sum(own.min(axis=-1) for own in errors.values())
    count = len(allreduce) + sum(map(len, gossip.values()))
    best = np.unravel_index(int(total.argmin()), total.shape)
    rms = float(np.sqrt(total[best] / count))
    limit = count * (rms + TOLERANCE) ** 2
    c, f, g = (float(values[index]) for values, index in zip((compute, fixed, gamma), best, strict=True))
    omegas = {}
    for name, own in errors.items():
        others = total - own.min(axis=-1)
        profile = (others[..., None] + own).min(axis=(0, 1, 2))
        omegas[name] = _estimate(omega, profile, limit, float(omega[own[best].argmin()]))
    return Fit(
        _estimate(compute, total.min(axis=(1, 2)), limit, c),
        _estimate(fixed, total.min(axis=(0, 2)), limit, f),
        _estimate(gamma, total.min(axis=(0, 1)), limit, g),
        omegas,
        rms,
        {n: float(_allreduce(c, f, g, n, buckets)) for n in allreduce},
        {
            name: {n: float(_gossip(c, f, g, omegas[name].value, n, buckets)) for n in times}
            for name, times in gossip.items()
        },
    )


def _allreduce(compute: Value, fixed: Value, gamma: Value, n: int, buckets: int) -> Floats:
    """`closed_forms.allreduce_time` on arrays."""
    backward = 2 / 3 * compute / n
    return np.asarray(compute / 3 / n + np.maximum(backward + gamma, backward / buckets + buckets * gamma) + fixed)


def _gossip(compute: Value, fixed: Value, gamma: Value, omega: Value, n: int, buckets: int) -> Floats:
    """`closed_forms.gossip_time` on arrays."""
    return np.asarray(np.maximum(compute / n + fixed, buckets * omega * gamma))


def _squares(measured: Mapping[int, float], predict: Callable[[int], Floats]) -> Floats:
    return np.sum([(predict(n) / time - 1) ** 2 for n, time in measured.items()], axis=0)


def _estimate(values: Floats, profile: Floats, limit: float, best: float) -> Estimate:
    as_good = values[profile <= limit]
    return Estimate(best, float(as_good.min()), float(as_good.max()))
