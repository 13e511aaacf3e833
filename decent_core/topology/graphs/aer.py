"""Alternating exponential ring over nodes: pairs of nodes average over both or each inside itself, in turns.

Wang et al., "From promise to practice" (arXiv 2410.11998), Figure 12. Stage r = 0 .. log2(nodes) - 1 joins the nodes
j and j XOR 2^r and takes two rounds. Half of the pairs average over both nodes in the stage's first round and inside
each node in its second; the other half the other way round. A running count over the pairs decides: as in the
reference implementation, pairs of odd count go first.
"""

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import disjoint
from decent_core.topology.rounds import Ints, Round
from decent_core.topology.schedule import Schedule, identity

SPARSE = True


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves one worker, and 2^k >= 2 nodes.

    With nodes of equal size every worker holds the exact mean after one period. Nodes of different size must be
    given one by one; every round is doubly stochastic then too, but the mean is only approached.
    """
    if layout.size == 1:
        return identity(1)
    nodes = _nodes(layout)
    stages = len(nodes).bit_length() - 1
    return Schedule(2 * stages, lambda step: _round(layout, nodes, stage=step // 2, joined=1 - step % 2))


def _round(layout: ClusterLayout, nodes: list[Ints], stage: int, joined: int) -> Round:
    """Pairs whose count has parity `joined` average over both nodes, the others inside each node."""
    first = [j for j in range(len(nodes)) if not j >> stage & 1]
    groups = []
    for count, j in enumerate(first):
        a, b = nodes[j], nodes[j ^ 1 << stage]
        groups += [np.concatenate((a, b))] if count % 2 == joined else [a, b]
    sizes = {len(group) for group in groups}
    return disjoint(layout.size, *(np.stack([group for group in groups if len(group) == m]) for m in sizes))


def _nodes(layout: ClusterLayout) -> list[Ints]:
    sizes = layout.node_sizes
    if isinstance(layout.local_size, int) and layout.size % layout.local_size:
        raise ValueError(
            "local_size must divide world_size (or list the size of every node, as in local_size=[4,2]), "
            f"{layout.size} = {layout.size // layout.local_size} x {layout.local_size} + {sizes[-1]}"
        )
    if len(sizes) < 2 or len(sizes) & (len(sizes) - 1):
        raise ValueError(f"the number of nodes must be a power of two, at least 2 (2, 4, 8, ...), got {len(sizes)}")
    return np.split(np.arange(layout.size), np.cumsum(sizes)[:-1])
