"""Sizes as people write and read them: 124M, 868 MB. No torch."""

import math
import re

UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


def parse_number(key: str, value: float | str) -> float:
    """A number that may end in K, M or G; raises ValueError, which names the option `key`, for anything else."""
    match = re.fullmatch(r"(\d+\.?\d*(?:e\d+)?)([KMG]?)", str(value), flags=re.IGNORECASE)
    if match is None:
        raise ValueError(f"{key}={value}: must be a number such as 124000000 or 124M")
    number = float(match[1]) * UNITS[match[2].upper()]
    if not 0 < number < math.inf:
        raise ValueError(f"{key}={value}: must be above 0, and finite")
    return number


def readable_bytes(amount: float) -> str:
    """868e6 -> 868 MB."""
    unit = next((unit for unit in "GMK" if amount >= UNITS[unit]), "")
    return f"{amount / UNITS[unit]:.4g} {unit.replace('K', 'k')}B"
