"""Medians and spreads of what all ranks have measured for a profile."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decent_core.lab.exchanges import Exchange, as_json, pooled


def summarise_computing(computing: Sequence[list[list[float]]]) -> dict[str, Any]:
    """Medians and spreads in milliseconds, the noise's variance (robust, within ranks) and each rank's slowdown."""
    times = np.array(computing)  # [ranks, repeats, 3]
    passes = times[:, :, :2].sum(axis=2)
    medians = np.median(passes, axis=1, keepdims=True)
    low, high = np.percentile(passes / medians, [15.87, 84.13])  # one standard deviation of a normal to each side
    named = zip(("forward_ms", "backward_ms", "update_ms"), times.reshape(-1, 3).T, strict=True)
    return {
        **{name: _spread(values) for name, values in named},
        "variance": float(((high - low) / 2) ** 2),
        "slowdown": (medians / medians.mean()).ravel().tolist(),
    }


def summarise_exchanges(exchanges: Sequence[dict[Exchange, list[float]]]) -> list[dict[str, Any]]:
    """Medians and spreads in milliseconds of each kind of exchange, of all ranks together."""
    return [{**as_json(exchange), **_spread(times)} for exchange, times in sorted(pooled(exchanges).items())]


def _spread(seconds: Any) -> dict[str, float]:
    low, median, high = (np.percentile(seconds, [10, 50, 90]) * 1000).tolist()
    return {"median": median, "p10": low, "p90": high}
