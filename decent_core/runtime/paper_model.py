"""The runtime model with the parameters of [P], and what it predicts."""

from dataclasses import asdict, dataclass

from decent_core import topology as topologies
from decent_core.runtime.closed_forms import Convention, allreduce_time, best_speedup, gossip_time, paper_workload
from decent_core.runtime.costs import constant
from decent_core.runtime.noise import Granularity, Noise
from decent_core.runtime.simulate import simulate_allreduce, simulate_gossip


@dataclass(frozen=True)
class PaperModel:
    """The model's parameters; the defaults are those of [P], Figure 4."""

    world_size: int = 32
    local_size: int | None = None  # workers on a node; null: 4, or fewer so that there are two nodes
    buckets: int = 7
    update: float = 0.364
    gamma: float = 4.0
    omega: float = 0.6
    variance: float = 0.00695
    topology: str = "one_peer_hypercube"
    convention: Convention = "A"
    noise: Granularity = "pass"
    seed: int = 0
    iterations: int = 1000  # simulated after 100 of warm-up

    def __post_init__(self) -> None:
        if self.gamma < 0:
            raise ValueError(f"gamma={self.gamma}: a time must not be negative")
        if not 0 < self.omega <= 1:
            raise ValueError(f"omega={self.omega}: must lie above 0 and not above 1 (a gossip round takes omega gamma)")
        if self.iterations < 1:
            raise ValueError(f"iterations={self.iterations}: must be at least 1")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: must be at least 0")


def predict_speedup(given: PaperModel) -> dict[str, object]:
    """Simulated times and speed-up, and what the closed forms say without noise; times in units of T N / b."""
    local_size = given.local_size or min(4, max(1, given.world_size // 2))
    topology = topologies.build(given.topology, given.world_size, local_size)
    work = paper_workload(given.buckets, given.update, given.world_size, given.convention)
    noise = Noise(given.variance, given.noise, given.seed)
    exchange = given.omega * given.gamma
    allreduce = simulate_allreduce(work, given.gamma, given.world_size, noise, given.iterations)
    decentralized = simulate_gossip(work, topology, constant(exchange), noise, given.iterations)
    without_noise = {
        "allreduce": allreduce_time(work, given.gamma) / given.buckets,
        "decentralized": gossip_time(work, exchange) / given.buckets,
        "speedup": allreduce_time(work, given.gamma) / gossip_time(work, exchange),
        "best_speedup": best_speedup(work, given.gamma),
    }
    return {
        "allreduce": allreduce / given.buckets,
        "decentralized": decentralized / given.buckets,
        "speedup": allreduce / decentralized,
        "source": "simulated",
        "without_noise": without_noise,
        **asdict(given),
        "local_size": local_size,
    }
