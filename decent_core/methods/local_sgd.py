"""Local SGD."""

from dataclasses import dataclass

from decent_core.methods.base import Method, Workers, check_option


@dataclass
class LocalSGD(Method):
    """Local steps, and a round of the topology after every H of them (Stich, ICLR 2019, eq. 2 and alg. 1).

    x_i <- x_i - lr d_i;   when H divides the number of steps done: x_i <- sum_j w_ij x_j. With topology=complete the
    workers meet in the exact mean, as published.
    """

    name = "local_sgd"

    every: int = 8  # H, steps

    def __post_init__(self) -> None:
        check_option(self, "every", self.every >= 1, "at least 1 step")

    def end_step(self, workers: Workers) -> None:
        workers.apply_optimizers()
        if (workers.step + 1) % self.every == 0:
            workers.x.copy_(workers.mix(workers.x, workers.step // self.every))
