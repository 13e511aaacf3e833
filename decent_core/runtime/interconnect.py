"""The interconnect of a machine, described by numbers or measured: how long the exchanges of a round take."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from decent_core.runtime.costs import Cost
from decent_core.runtime.exchanges import Key, from_table
from decent_core.runtime.network import Network


class Interconnect(Protocol):
    """The links between the workers."""

    def cost(self, message_bytes: float, latency: bool = True, bandwidth: bool = True) -> Cost:
        """Durations (s) of a round with messages of this size; without the part of latency, or of size, if False."""


@dataclass(frozen=True)
class Links:
    """Links described by numbers; see `Network`."""

    network: Network

    def cost(self, message_bytes: float, latency: bool = True, bandwidth: bool = True) -> Cost:
        network = replace(self.network, message_bytes=message_bytes if bandwidth else 0.0)
        return network if latency else replace(network, latency=0.0, local_latency=0.0)


@dataclass(frozen=True)
class Measured:
    """Exchanges as measured: kind -> bytes -> seconds; the time of the smallest message is the latency."""

    table: Mapping[Key, Mapping[int, float]]

    def cost(self, message_bytes: float, latency: bool = True, bandwidth: bool = True) -> Cost:
        durations = {}
        for key, measured in self.table.items():
            sizes, times = zip(*sorted(measured.items()), strict=True)
            total, empty = float(np.interp(message_bytes, sizes, times)), times[0]
            durations[key] = latency * empty + bandwidth * max(0.0, total - empty)
        return from_table(durations)
