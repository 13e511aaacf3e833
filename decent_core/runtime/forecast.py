"""A forecast for a machine with a number of workers: All-Reduce, and gossip over every feasible topology."""

from dataclasses import dataclass

from decent_core.runtime.machines import Profile, interconnect_for
from decent_core.runtime.network import Network
from decent_core.runtime.predict import Prediction, Step, predict_allreduce, predict_gossip
from decent_core.topology import feasible
from decent_core.topology.analysis import rounds_to_worst

MOST_MIXED, MIXED = 256, 1e-3


@dataclass(frozen=True)
class Forecast:
    """Predictions for one number of workers; `gossip` by topology, fastest first; `rounds` to mix, where computed."""

    world_size: int
    allreduce: Prediction
    gossip: dict[str, Prediction]
    rounds: dict[str, int | None]

    def speedup(self, name: str) -> float:
        return self.allreduce.seconds / self.gossip[name].seconds


def forecast(
    step: Step, profile: Profile | None, network: Network | None, layout: tuple[int, int], explain: bool
) -> Forecast | None:
    """Predictions for (workers, workers on a node); None if nothing is known about their exchanges."""
    interconnect = interconnect_for(profile, network, "complete", layout)
    if interconnect is None:
        return None
    allreduce = predict_allreduce(step, interconnect, *layout, explain=explain)
    gossip, rounds = {}, {}
    for topology in feasible(*layout):
        own = interconnect_for(profile, network, topology.name, layout)
        if own is not None:
            gossip[topology.name] = predict_gossip(step, own, topology, explain)
            if explain and layout[0] <= MOST_MIXED:
                rounds[topology.name] = rounds_to_worst(topology, MIXED)
    return Forecast(layout[0], allreduce, dict(sorted(gossip.items(), key=lambda item: item[1].seconds)), rounds)
