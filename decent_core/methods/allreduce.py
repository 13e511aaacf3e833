"""All-Reduce, the baseline."""

from dataclasses import dataclass

from decent_core.methods.base import Method, Workers


@dataclass
class AllReduce(Method):
    """Parallel training with one global gradient.

    g <- (1/N) sum_j g_j;   x <- x - lr d(g)
    """

    name = "allreduce"
    averages_gradients = True
    uses_topology = False

    def end_step(self, workers: Workers) -> None:
        workers.average_gradients()
        workers.apply_optimizers()
