"""How fast a topology mixes and what it costs: contraction, eigenvalues, rounds to consensus, bytes sent.

All of it works on dense N x N products, so it is meant for worlds of up to some hundred workers; only `bytes_sent`
reads the rounds themselves. J = (1/N) 11^T. For `push` topologies the error is that of the weighed-out vectors, and
the contraction is the second largest |eigenvalue| of the period's product.
"""

import math
from dataclasses import dataclass

import numpy as np

from decent_core.topology.build import Topology
from decent_core.topology.rounds import Floats

#: starting phases that `rounds_to_worst` tries, and rounds that `bytes_sent` reads, of a topology with a long period
REPRESENTATIVE = 64
#: what rounding leaves of a product that is J exactly
ROUNDING = 1e-12


@dataclass(frozen=True)
class BytesSent:
    """What workers send in one round, over the rounds of a period."""

    mean: float
    max: float


def second_eigenvalue(matrix: Floats) -> float:
    """The second largest |eigenvalue| of a mixing matrix [N, N]; rho of a static topology. 0 for one worker."""
    sizes = np.sort(np.abs(np.linalg.eigvals(matrix)))
    return float(sizes[-2]) if len(sizes) > 1 else 0.0


def period_product(topology: Topology, phase: int = 0) -> Floats:
    """W(phase + period - 1) ... W(phase), [N, N]."""
    product = np.eye(topology.world_size)
    for step in range(phase, phase + topology.period):
        product = topology.matrix(step) @ product
    return product


def contraction(topology: Topology) -> float:
    """||P - J||_2 of the period's product P: what is left of the workers' differences, at worst. 0 if P = J."""
    return _exp(_log_contraction(topology))


def contraction_per_round(topology: Topology) -> float:
    """The geometric mean of `contraction` over the period's rounds."""
    return _exp(_log_contraction(topology) / topology.period)


def rounds_to(topology: Topology, error: float, phase: int = 0, limit: int = 1_000_000) -> int | None:
    """The smallest number of rounds, the first at `phase`, whose product P has ||P - J||_2 < error.

    None if `limit` rounds are not enough.
    """
    n = topology.world_size
    product = np.eye(n)
    for step in range(topology.period):
        if _is_below(product, error):
            return step
        product = topology.matrix(phase + step) @ product
    powers = [product]  # of the period's product: 1, 2, 4, ...
    while not _is_below(powers[-1], error):
        if topology.period << (len(powers) - 1) > limit:
            return None
        powers.append(powers[-1] @ powers[-1])
    product, rounds = np.eye(n), 0
    for exponent in reversed(range(len(powers))):
        further = powers[exponent] @ product
        if not _is_below(further, error):
            product, rounds = further, rounds + (topology.period << exponent)
    while not _is_below(product, error):
        product = topology.matrix(phase + rounds) @ product
        rounds += 1
    return rounds if rounds <= limit else None


def rounds_to_worst(topology: Topology, error: float, limit: int = 1_000_000) -> int | None:
    """`rounds_to` from the worst phase of the period (of its first 64). None if `limit` rounds are not enough."""
    worst = 0
    for phase in range(min(topology.period, REPRESENTATIVE)):
        rounds = rounds_to(topology, error, phase, limit)
        if rounds is None:
            return None
        worst = max(worst, rounds)
    return worst


def bytes_sent(topology: Topology, parameter_bytes: float) -> BytesSent:
    """Bytes a worker sends in one round: the mean, and the most of any worker in any round (of the first 64)."""
    steps = range(min(topology.period, REPRESENTATIVE))
    means, largest = zip(*((sent.mean(), sent.max()) for sent in _sent(topology, parameter_bytes, steps)), strict=True)
    return BytesSent(float(np.mean(means)), float(max(largest)))


def _sent(topology: Topology, parameter_bytes: float, steps: range) -> list[Floats]:
    return [topology.round(step).bytes_sent(parameter_bytes) for step in steps]


def _log_contraction(topology: Topology) -> float:
    """The logarithm of `contraction`, scaled every round: a long period's product is too small to subtract J."""
    if topology.push:
        return _log(second_eigenvalue(period_product(topology)))
    rest, log_scale = np.eye(topology.world_size), 0.0
    for step in range(topology.period):
        rest = topology.matrix(step) @ rest
        rest -= rest.mean(axis=0)
        size = float(np.linalg.norm(rest))
        if size < ROUNDING:
            return -math.inf
        rest /= size
        log_scale += math.log(size)
    return log_scale + _log(float(np.linalg.norm(rest, 2)))


def _is_below(product: Floats, error: float) -> bool:
    """Whether ||P - J||_2 < error, by the Frobenius norm where that is enough; rows weighed out to sum to 1."""
    n = len(product)
    rest = product / product.sum(axis=1, keepdims=True) - 1 / n
    size = np.linalg.norm(rest)
    if size < error or size >= error * math.sqrt(n):
        return bool(size < error)
    return bool(np.linalg.norm(rest, 2) < error)


def _log(value: float) -> float:
    return math.log(value) if value > ROUNDING else -math.inf


def _exp(value: float) -> float:
    return math.exp(value) if value > -math.inf else 0.0
