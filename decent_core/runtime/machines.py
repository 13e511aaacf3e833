"""What is known of a machine: from a profile, from the description of its links, or from both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from decent_core import topology as topologies
from decent_core.runtime.exchanges import Key, exchange_keys
from decent_core.runtime.interconnect import Interconnect, Links, Measured
from decent_core.runtime.network import Network
from decent_core.runtime.noise import Noise
from decent_core.runtime.predict import PIECES, Step

MOST_ROUNDS = 256  # of a period; the simulation sees no more
Sizes = dict[int, float]  # bytes -> seconds


@dataclass(frozen=True)
class Profile:
    """A file that `scripts.bench profile` has written."""

    values: Mapping[str, Any]

    @property
    def layout(self) -> tuple[int, int]:
        """Workers, and workers on a node."""
        return self.values["world_size"], self.values["local_size"]

    def step(self) -> Step:
        """One worker's step without communication, and its noise; persistent differences of ranks are left out."""
        v = self.values
        forward, backward, update = (v[name]["median"] / 1000 for name in ("forward_ms", "backward_ms", "update_ms"))
        noise, pieces = Noise(min(v["variance"], 0.1)), PIECES if v["device"] == "cpu" else 1
        return Step(forward, backward, update, v["message_bytes"], v["bucket_bytes"], noise, pieces)

    def exchanges(self) -> dict[str, dict[Key, Sizes]]:
        """topology -> kind of exchange -> seconds by bytes."""
        found: dict[str, dict[Key, Sizes]] = {}
        for e in self.values["exchanges"]:
            sizes = found.setdefault(e["topology"], {}).setdefault((e["kind"], e["size"], e["crosses"], e["load"]), {})
            sizes[e["bytes"]] = e["median"] / 1000
        return found

    def interconnect(self, topology: str) -> Interconnect | None:
        """A topology's exchanges over the measured workers: its own, or the same of others; None if one is unknown."""
        exchanges = self.exchanges()
        alike = {key: sizes for table in exchanges.values() for key, sizes in table.items()}
        known = alike | exchanges.get(topology, {})
        needed = _keys(topology, *self.layout)
        return Measured({key: known[key] for key in needed}) if needed <= known.keys() else None

    def network(self) -> Network | None:
        """Links that explain the exchanges, for other numbers of workers; None without any exchange between nodes."""
        inside, across = self._links(crossing=False), self._links(crossing=True)
        if across is None:
            return None
        inside = inside or (float("inf"), 0.0)  # one worker a node
        return Network(0.0, *across, *inside)

    def _links(self, crossing: bool) -> tuple[float, float] | None:
        """Bandwidth (bytes/s) and latency (s): medians over the exchanges of all topologies."""
        bandwidths, latencies = [], []
        for table in self.exchanges().values():
            for (kind, size, crosses, load), sizes in table.items():
                empty, per_byte = _line(sizes)
                if crosses != crossing or not per_byte:
                    continue
                steps = 2 * (size - 1) if kind == "group" and size > 2 else 1
                vectors = load if crosses else steps / size if steps > 1 else size if kind == "peers" else 1
                bandwidths.append(vectors / per_byte)
                latencies.append(empty / steps)
        return (float(np.median(bandwidths)), float(np.median(latencies))) if bandwidths else None


def read_profile(path: str) -> Profile:
    """Raises ValueError if the file is no profile."""
    try:
        values = json.loads(Path(path).read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(
            f"profile={path}: cannot be read ({error}); python -m scripts.bench profile writes one"
        ) from None
    if not isinstance(values, dict) or values.get("schema") != 1 or "exchanges" not in values:
        raise ValueError(f"profile={path}: is no profile; python -m scripts.bench profile writes one")
    return Profile(values)


def interconnect_for(
    profile: Profile | None, network: Network | None, topology: str, layout: tuple[int, int]
) -> Interconnect | None:
    """The measured exchanges where there are any, else links; None if nothing is known."""
    if profile is not None and network is None and layout == profile.layout:
        return profile.interconnect(topology)
    network = network or (profile.network() if profile is not None else None)
    return Links(network) if network is not None else None


def _line(sizes: Sizes) -> tuple[float, float]:
    """Seconds of an empty message, and for each byte, through the smallest and the largest size."""
    small, large = min(sizes), max(sizes)
    per_byte = max(0.0, (sizes[large] - sizes[small]) / (large - small)) if large > small else 0.0
    return sizes[small], per_byte


def _keys(name: str, world_size: int, local_size: int) -> set[Key]:
    """The exchanges of a topology."""
    built = topologies.build(name, world_size, local_size)
    rounds = (built.round(step) for step in range(min(built.period, MOST_ROUNDS)))
    return {key for round_ in rounds for key in exchange_keys(round_, built.node_of) if key is not None}
