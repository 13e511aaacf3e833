"""Predicts the time of an iteration with All-Reduce and with gossip: the runtime model of [P], without torch.

[P] is Wang et al., "From promise to practice: realizing high-performance decentralized training" (arXiv 2410.11998).
"""

from decent_core.runtime.closed_forms import Workload, allreduce_time, best_speedup, gossip_time, paper_workload
from decent_core.runtime.costs import Cost, constant, per_group
from decent_core.runtime.network import Network
from decent_core.runtime.noise import Noise
from decent_core.runtime.simulate import simulate_allreduce, simulate_gossip

__all__ = [
    "Cost",
    "Network",
    "Noise",
    "Workload",
    "allreduce_time",
    "best_speedup",
    "constant",
    "gossip_time",
    "paper_workload",
    "per_group",
    "simulate_allreduce",
    "simulate_gossip",
]
