"""What is predicted for a machine with a number of workers: All-Reduce, and gossip over every topology that serves."""

from dataclasses import dataclass

from decent_core.runtime import Network
from decent_core.runtime.machines import Profile, fabric_for
from decent_core.runtime.predict import Prediction, Step, predict_allreduce, predict_gossip, serving
from decent_core.topology.analysis import rounds_to_worst

MOST_MIXED, MIXED = 256, 1e-3


@dataclass(frozen=True)
class Outlook:
    """What is predicted for one world; `gossip` by topology, fastest first, and `rounds` to mix, where computed."""

    world_size: int
    allreduce: Prediction
    gossip: dict[str, Prediction]
    rounds: dict[str, int | None]

    def speedup(self, name: str) -> float:
        return self.allreduce.seconds / self.gossip[name].seconds


def predict(
    step: Step, profile: Profile | None, network: Network | None, world: tuple[int, int], explain: bool
) -> Outlook | None:
    """All topologies that serve the world; None if nothing is known about its exchanges."""
    fabric = fabric_for(profile, network, "complete", world)
    if fabric is None:
        return None
    allreduce = predict_allreduce(step, fabric, *world, explain=explain)
    gossip, rounds = {}, {}
    for topology in serving(*world):
        own = fabric_for(profile, network, topology.name, world)
        if own is not None:
            gossip[topology.name] = predict_gossip(step, own, topology, explain)
            if explain and world[0] <= MOST_MIXED:
                rounds[topology.name] = rounds_to_worst(topology, MIXED)
    return Outlook(world[0], allreduce, dict(sorted(gossip.items(), key=lambda item: item[1].seconds)), rounds)
