"""Topologies: periodic schedules of mixing rounds, defined once as pure data, without torch.

A topology is added by one file in `graphs/`: its name is the topology's, its function `schedule(world, **options)`
returns the rounds. `SPARSE = True` in it says that the memory of a round grows no faster than the number of workers.
"""

from decent_core.topology.build import Topology, build, names, options, summary
from decent_core.topology.feasible import feasible
from decent_core.topology.rounds import GroupPlan, GroupRound, PeerPlan, PeerRound, Round

__all__ = [
    "GroupPlan",
    "GroupRound",
    "PeerPlan",
    "PeerRound",
    "Round",
    "Topology",
    "build",
    "feasible",
    "names",
    "options",
    "summary",
]
