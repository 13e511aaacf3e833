"""The machine that a forecast is for: a measured profile, or the times of a step; and links, measured or described."""

from dataclasses import dataclass

from decent_core.display.units import parse_number
from decent_core.runtime.machines import Profile
from decent_core.runtime.network import Network
from decent_core.runtime.noise import Noise
from decent_core.runtime.predict import Step

MOST_POINTS = 6  # of the picture
BYTES = 4  # of a parameter


@dataclass(frozen=True)
class MachineOptions:
    """A profile, or the times of a step; and links and number of nodes, where they are not those of the profile."""

    profile: str | None = None
    compute_ms: float | None = None  # forward and backward pass of one worker, split 1 : 2
    update_ms: float = 0.0
    parameters: float | str | None = None
    bucket_mib: float = 25.0
    variance: float = 0.00695  # of computing times, without a profile
    link_gbps: float | None = None  # of each node
    latency_us: float | None = None
    local_gbps: float = 200.0
    local_latency_us: float = 10.0
    nodes: int | None = None
    local_size: int | None = None

    def __post_init__(self) -> None:
        if (self.profile is None) == (self.compute_ms is None):
            raise ValueError("profile, compute_ms: give one of them, a measured profile or a worker's step")
        if self.profile is None and (self.parameters is None or self.link_gbps is None):
            raise ValueError("compute_ms: give parameters=, link_gbps= and latency_us= with it")
        if (self.link_gbps is None) != (self.latency_us is None):
            raise ValueError("link_gbps, latency_us: give both, or none")
        if self.link_gbps is not None and (self.nodes is None or self.local_size is None):
            raise ValueError("link_gbps: give nodes= and local_size= with it")
        if self.link_gbps is None and (self.nodes is not None) != (self.local_size is not None):
            raise ValueError("nodes, local_size: give both, or none")
        for key in ("compute_ms", "link_gbps", "local_gbps", "nodes", "local_size", "bucket_mib"):
            value = getattr(self, key)
            if value is not None and not value > 0:
                raise ValueError(f"{key}={value}: must be above 0")
        for key in ("latency_us", "local_latency_us", "update_ms"):
            value = getattr(self, key)
            if value is not None and not value >= 0:
                raise ValueError(f"{key}={value}: must not be negative")
        if self.parameters is not None:
            parse_number("parameters", self.parameters)

    def step(self, profile: Profile | None) -> Step:
        """What one worker computes in a step; measured where there is a profile."""
        if profile is not None:
            return profile.step()
        assert self.compute_ms is not None
        assert self.parameters is not None
        seconds = self.compute_ms / 1000
        size = BYTES * parse_number("parameters", self.parameters)
        noise = Noise(self.variance)
        return Step(seconds / 3, 2 * seconds / 3, self.update_ms / 1000, size, self.bucket_mib * 2**20, noise)

    def network(self) -> Network | None:
        """The links that are described, if any are."""
        if self.link_gbps is None or self.latency_us is None:
            return None
        local = self.local_gbps * 1e9 / 8, self.local_latency_us * 1e-6
        return Network(0.0, self.link_gbps * 1e9 / 8, self.latency_us * 1e-6, *local)

    def layouts(self, profile: Profile | None) -> list[tuple[int, int]]:
        """Workers and workers on a node, for each point of the picture, the one that is asked for last.

        The number of nodes goes up in powers of two, or of more if there are many.
        """
        if self.nodes is None or self.local_size is None:
            assert profile is not None
            return [profile.layout]
        factor = 2
        while self.nodes > factor**MOST_POINTS:
            factor *= 2
        counts, nodes = [], self.nodes
        while nodes >= 1:
            counts.append(nodes)
            nodes //= factor
        layouts = [(count * self.local_size, self.local_size) for count in reversed(counts)]
        return [layout for layout in layouts if layout[0] > 1] or layouts
