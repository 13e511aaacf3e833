"""The topologies that gossip can use over given workers."""

from decent_core.topology.build import Topology, build, is_sparse, names

#: beyond this many workers: only sparse topologies
LARGE = 8192


def feasible(world_size: int, local_size: int) -> list[Topology]:
    """All that can be built over these workers, but for those from a file and those of push-sum."""
    found = []
    for name in names():
        if name == "file" or (world_size > LARGE and not is_sparse(name)):
            continue
        try:
            built = build(name, world_size, local_size)
        except ValueError:  # this topology needs another number of workers
            continue
        if not built.push:
            found.append(built)
    return found
