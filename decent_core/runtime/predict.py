"""What an iteration will take on a machine: training with this engine over every topology, and with All-Reduce.

The engine exchanges all parameters in one stream. On the CPU it goes on from step to step: parameters are updated in
the backward pass, and sent at once. On an accelerator the exchange starts when all is updated: as with one piece.
All-Reduce is torch's DistributedDataParallel: the model's All-Reduce with as many buckets as it makes.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from decent_core import topology as topologies
from decent_core.runtime.closed_forms import Workload
from decent_core.runtime.costs import Cost
from decent_core.runtime.interconnect import Interconnect
from decent_core.runtime.noise import Noise
from decent_core.runtime.simulate import simulate_allreduce, simulate_gossip
from decent_core.topology import GroupRound, Topology

#: workers x iterations that a simulation may cost, the most iterations, and the part of them for warming up; with a
#: million workers, iterations are too few for delays to spread
BUDGET, MOST_ITERATIONS, WARM_UP_PART = 8_000_000, 200, 0.25
#: a share of the iteration that is worth naming as its limit
NOTABLE = 0.03
PIECES = 8  # modelled in place of the many pieces in which the engine sends a model on the CPU


@dataclass(frozen=True, eq=False)
class Step:
    """A worker's step without communication: seconds a pass, bytes of all parameters and of a bucket, and the noise."""

    forward: float
    backward: float
    update: float
    message_bytes: float
    bucket_bytes: float
    noise: Noise
    pieces: int = 1  # in which this engine updates and sends

    @property
    def compute(self) -> float:
        return self.forward + self.backward + self.update

    @property
    def buckets(self) -> int:
        """Buckets of the gradient All-Reduce."""
        return max(1, math.ceil(self.message_bytes / self.bucket_bytes))


@dataclass(frozen=True)
class Prediction:
    """Seconds an iteration, and what limits it: computing, latency, bandwidth or stragglers."""

    seconds: float
    limit: str


def predict_gossip(
    step: Step, interconnect: Interconnect, topology: Topology, explain: bool = True, bucket_wise: bool = False
) -> Prediction:
    """An iteration of gossip over the topology.

    `bucket_wise` is decent-dp's way: an exchange of its own for each bucket, which has its own latency.
    """
    parts = step.buckets if bucket_wise else step.pieces
    work = Workload(parts, step.forward / parts, step.backward / parts, step.update / parts)

    def seconds(noise: Noise, latency: bool, bandwidth: bool) -> float:
        if bucket_wise:
            cost = interconnect.cost(step.message_bytes / parts, latency, bandwidth)
        else:
            cost = _part(interconnect.cost(step.message_bytes, latency, bandwidth), parts)
        iterations = _iterations(topology.world_size * parts)
        return simulate_gossip(work, topology, cost, noise, *iterations)

    return _explained(step, seconds, explain)


def predict_allreduce(
    step: Step, interconnect: Interconnect, world_size: int, local_size: int, explain: bool = True
) -> Prediction:
    """An iteration of All-Reduce."""
    b = step.buckets
    work = Workload(b, step.forward / b, step.backward / b, step.update / b)
    complete = topologies.build("complete", world_size, local_size)

    def seconds(noise: Noise, latency: bool, bandwidth: bool) -> float:
        cost = interconnect.cost(step.message_bytes / b, latency, bandwidth)
        round_ = complete.round(0)
        assert isinstance(round_, GroupRound)
        gamma = float(cost(round_, complete.node_of)[0][0])
        return simulate_allreduce(work, gamma, world_size, noise, *_iterations(world_size * b))

    return _explained(step, seconds, explain)


def _part(whole: Cost, parts: int) -> Cost:
    """The cost of one of the parts of a stream that pays the latency once."""
    return lambda round_, node_of: tuple(durations / parts for durations in whole(round_, node_of))


class _Seconds(Protocol):
    def __call__(self, noise: Noise, latency: bool, bandwidth: bool) -> float: ...


def _explained(step: Step, seconds: _Seconds, explain: bool) -> Prediction:
    """The time, and the one cause without which it would shrink most."""
    full = seconds(step.noise, True, True)
    if not explain:
        return Prediction(full, "")
    without = {
        "latency": seconds(step.noise, False, True),
        "bandwidth": seconds(step.noise, True, False),
        "stragglers": seconds(Noise(seed=step.noise.seed), True, True),
    }
    cause = min(without, key=lambda name: without[name])
    return Prediction(full, cause if without[cause] < (1 - NOTABLE) * full else "compute")


def _iterations(size: int) -> tuple[int, int]:
    """Iterations that count, and of warm-up, for `size` workers (or workers and buckets)."""
    count = int(np.clip(BUDGET // size, 6, MOST_ITERATIONS))
    warm_up = int(count * WARM_UP_PART)
    return count - warm_up, warm_up
