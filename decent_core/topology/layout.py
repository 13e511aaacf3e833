"""Who takes part in a topology: the number of workers and how they lie on nodes."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ClusterLayout:
    """`size` workers; worker numbers run through node 0 first, then node 1, and so on."""

    size: int
    #: workers of a full node (the last node takes what is left), or the size of every node
    local_size: int | tuple[int, ...]

    @property
    def node_sizes(self) -> NDArray[np.int64]:
        """Workers on each node, int [nodes]."""
        if isinstance(self.local_size, tuple):
            return np.array(self.local_size)
        full, rest = divmod(self.size, self.local_size)
        return np.array([self.local_size] * full + [rest] * (rest > 0))

    @property
    def node_of(self) -> NDArray[np.int64]:
        """The node of each worker, int [N]."""
        sizes = self.node_sizes
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def log2(self) -> int:
        """k for 2^k workers. ValueError for any other."""
        if self.size & (self.size - 1):
            below = 1 << (self.size.bit_length() - 1)
            raise ValueError(f"the number of workers must be a power of two (nearest: {below} and {2 * below})")
        return self.size.bit_length() - 1


def make_layout(world_size: int, local_size: int | Sequence[int]) -> ClusterLayout:
    """A checked `ClusterLayout`. ValueError for sizes below 1, or node sizes that do not add up to `world_size`."""
    size = _positive(world_size, "world_size")
    if isinstance(local_size, Sequence) and not isinstance(local_size, str):
        nodes = tuple(_positive(n, "each node size in local_size") for n in local_size)
        if sum(nodes) != size:
            raise ValueError(
                f"local_size={list(nodes)} has {sum(nodes)} workers, world_size={size}; they must be equal"
            )
        return ClusterLayout(size, nodes)
    return ClusterLayout(size, _positive(local_size, "local_size"))


def _positive(value: object, what: str) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{what} must be an integer, got {value!r}") from None
    if isinstance(value, bool) or number < 1:
        raise ValueError(f"{what} must be at least 1, got {value!r}")
    return number
