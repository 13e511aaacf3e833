"""Every worker i averages with all workers i + 2^k (mod N), k = 0 .. ceil(log2 N) - 1, equal weights; directed.

Ying et al., "Exponential graph is provably efficient for decentralized deep training" (NeurIPS 2021), eq. 5.
"""

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import circulant
from decent_core.topology.schedule import Schedule, static


def schedule(layout: ClusterLayout) -> Schedule:
    """Serves any number of workers. The spectral gap is 2 / (ceil(log2 N) + 1) for even N."""
    hops = [2**k for k in range((layout.size - 1).bit_length())]
    return static(circulant(layout.size, dict.fromkeys([0, *hops], 1 / (1 + len(hops)))))
