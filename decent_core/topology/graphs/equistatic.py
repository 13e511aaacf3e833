"""The mean of m random circulants A(u) = (N-1)/N shift_u + I/N, fixed once; its rho does not grow with N.

Song et al., "Communication-efficient topologies for decentralized learning with O(1) consensus rate" (NeurIPS 2022).
The offsets u in 1 .. N-1 are drawn without repetition, so that m = N - 1 gives J.
"""

from typing import Literal

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import circulant
from decent_core.topology.schedule import Schedule, identity, static


def schedule(layout: ClusterLayout, m: int | None = None, seed: int = 0, kind: Literal["d", "u"] = "d") -> Schedule:
    """Any number of workers. m offsets (null: ceil(log2 N)); kind `d` is directed, `u` takes half of each direction."""
    n = layout.size
    if n == 1:
        return identity(1)
    m = (n - 1).bit_length() if m is None else m
    if not 1 <= m < n:
        raise ValueError(f"m must be 1 .. {n - 1} (world_size - 1), got {m}")
    offsets = 1 + np.random.default_rng(seed).permutation(n - 1)[:m]
    share = (n - 1) / n / m
    weights = {0: 1 / n}
    for u in offsets.tolist():
        for offset, part in ((u, share),) if kind == "d" else ((u, share / 2), (n - u, share / 2)):
            weights[offset] = weights.get(offset, 0.0) + part
    return static(circulant(n, weights))
