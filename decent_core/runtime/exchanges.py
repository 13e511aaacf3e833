"""What tells exchanges apart from outside: their kind, size, whether they cross nodes, and the load of their links."""

from collections.abc import Mapping

import numpy as np

from decent_core.runtime.costs import Cost, Kind
from decent_core.runtime.network import Network
from decent_core.topology import GroupPlan, GroupRound, Round
from decent_core.topology.rounds import Floats, Ints

#: kind, size (as for `per_group`), whether nodes are crossed, and messages on the busiest link
Key = tuple[Kind, int, bool, float]
#: counts the messages that a link carries: one is one unit, and a link carries one a second
COUNTER = Network(1.0, 1.0, 0.0, float("inf"), 0.0)


def exchange_keys(round_: Round, node_of: Ints) -> list[Key | None]:
    """What each worker's exchange looks like from outside, worker by worker; None for a worker alone.

    Two exchanges of equal kind and size still differ in how many messages the busiest of their nodes' links carries.
    """
    load = np.zeros(round_.world_size)
    parts = round_.groups if isinstance(round_, GroupRound) else (np.arange(round_.world_size)[:, None],)
    for members, own in zip(parts, COUNTER(round_, node_of), strict=True):
        load[members] = own[:, None]
    return [_key(round_, node_of, worker, round(float(load[worker]), 3)) for worker in range(round_.world_size)]


def from_table(durations: Mapping[Key, float]) -> Cost:
    """Durations by `exchange_keys`; a worker alone takes no time."""

    def cost(round_: Round, node_of: Ints) -> tuple[Floats, ...]:
        found = np.array([0.0 if key is None else durations[key] for key in exchange_keys(round_, node_of)])
        if isinstance(round_, GroupRound):
            return tuple(found[groups[:, 0]] for groups in round_.groups)
        return (found,)

    return cost


def _key(round_: Round, node_of: Ints, worker: int, load: float) -> Key | None:
    plan = round_.plan(worker)
    if isinstance(plan, GroupPlan):
        nodes = node_of[list(plan.members)]
        return ("group", len(nodes), bool((nodes != nodes[0]).any()), load) if len(nodes) > 1 else None
    receives = [peer for peer, _ in plan.receives]
    others = node_of[[worker, *plan.sends, *receives]]
    size = max(len(plan.sends), len(receives))
    return ("peers", size, bool((others != others[0]).any()), load) if size else None
