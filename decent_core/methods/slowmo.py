"""SlowMo, slow momentum."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from decent_core.methods.base import Method, Workers, check_option, state
from decent_core.topology import Topology


@dataclass
class SlowMo(Method):
    """Any base method, and every tau steps a momentum step over the exact mean (Wang et al., ICLR 2020, alg. 1).

    u <- beta u + (x0 - mean_j x_j) / lr;   x0 <- x0 - alpha lr u;   x_i <- x0,   with the rate of the tau-th step

    The local optimizers keep their state. At rate 0 there is no quotient: u stays, and x0 <- x0 - alpha (x0 - mean).
    """

    name = "slowmo"
    tied_to_x = True

    base: str = "atc"  # with the values that its options have by default
    tau: int = 12  # steps
    alpha: float = 1.0
    slow_beta: float = 0.5
    x0: Tensor = state()  # [D], the same for all workers
    u: Tensor = state()  # [D]
    inner: Method = field(init=False, repr=False)

    def __post_init__(self) -> None:
        from decent_core.methods import METHODS  # complete only when all methods have been imported

        fit = [name for name, method in METHODS.items() if method.uses_topology and not method.tied_to_x]
        check_option(self, "base", self.base in fit, f"one of {', '.join(fit)}")
        check_option(self, "tau", self.tau >= 1, "at least 1 step")
        check_option(self, "alpha", self.alpha > 0, "a number > 0")
        check_option(self, "slow_beta", 0 <= self.slow_beta < 1, "a number with 0 <= slow_beta < 1")
        self.inner = METHODS[self.base]()

    def check_optimizer(self, optimizer: str, nesterov: bool = False) -> None:
        self.inner.check_optimizer(optimizer, nesterov)

    def check_topology(self, topology: Topology, beta: float) -> None:
        self.inner.check_topology(topology, beta)

    def start(self, workers: Workers) -> None:
        self.inner.start(workers)
        self.x0 = workers.x[0].clone()
        self.u = torch.zeros_like(self.x0)

    def begin_step(self, workers: Workers) -> None:
        self.inner.begin_step(workers)

    def end_step(self, workers: Workers) -> None:
        self.inner.end_step(workers)
        if (workers.step + 1) % self.tau == 0:
            self._slow_step(workers)

    def _slow_step(self, workers: Workers) -> None:
        lr, moved = workers.lr, self.x0 - workers.mean(workers.x)
        self.x0.sub_(moved, alpha=self.alpha)
        if lr > 0:
            self.x0.sub_(self.u, alpha=self.alpha * lr * self.slow_beta)
            self.u.mul_(self.slow_beta).add_(moved, alpha=1 / lr)
        workers.x.copy_(self.x0)

    def state_dict(self) -> dict[str, Tensor]:
        inner = {f"inner.{name}": tensor for name, tensor in self.inner.state_dict().items()}
        return {"x0": self.x0, "u": self.u, **inner}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.x0, self.u = state["x0"], state["u"]
        names = [name for name in state if name.startswith("inner.")]
        self.inner.load_state_dict({name.removeprefix("inner."): state[name] for name in names})
