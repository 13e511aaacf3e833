"""AccumAdam and AccumAdamW: Adam whose persistent moments take in one mean gradient per window of k steps.

Source: Wang, Zhang, Wu, Johansson, "From promise to practice" (ICLR 2025, arXiv 2410.11998). With t = 1, 2, ... the
steps of a tensor, r = ceil(t / k) its window, and M, V, b starting at 0, every step does

    m = β1 M + (1 − β1) g          v = β2 V + (1 − β2) g²          b ← b + g / k
    x ← x − η [m / (1 − β1^r)] / [sqrt(v / (1 − β2^r)) + ε]

and the last step of a window (t mod k = 0) then does

    M ← β1 M + (1 − β1) b          V ← β2 V + (1 − β2) b²          b ← 0

AccumAdam adds λx to g before anything else; AccumAdamW shrinks x to (1 − ηλ) x before the update. With `eps_inside`
the denominator is sqrt(v / (1 − β2^r) + ε), as in the first printed listing. k = 1 is torch's Adam and AdamW.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from decent_core.optim.ranges import check_ranges

Operands = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]  # x, g, M, V, b of one tensor, all of its shape


@dataclass(frozen=True)
class Step:
    """The numbers of one update, common to the tensors of a group that are at their t-th step."""

    t: int
    k: int
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    decoupled_weight_decay: bool
    eps_inside: bool

    def bias_corrections(self) -> tuple[float, float]:
        """1 − β1^r and 1 − β2^r: windows are counted, since M and V take in one gradient a window."""
        r = -(-self.t // self.k)
        return 1 - self.betas[0] ** r, 1 - self.betas[1] ** r

    def closes_window(self) -> bool:
        return self.t % self.k == 0


# Both updates order their operations as torch's Adam does, so that k = 1 gives the same bits.


def update_single(step: Step, x: Tensor, g: Tensor, M: Tensor, V: Tensor, b: Tensor) -> None:
    """One step of one tensor: changes x, M, V and b in place and only reads g."""
    (beta1, beta2), (correction1, correction2) = step.betas, step.bias_corrections()
    if step.weight_decay and step.decoupled_weight_decay:
        x.mul_(1 - step.lr * step.weight_decay)
    elif step.weight_decay:
        g = g.add(x, alpha=step.weight_decay)

    m = M.lerp(g, 1 - beta1)
    v = V.mul(beta2).addcmul_(g, g, value=1 - beta2)
    b.add_(g, alpha=1 / step.k)

    if step.eps_inside:
        denominator = v.div_(correction2).add_(step.eps).sqrt_()
    else:
        denominator = v.sqrt_().div_(correction2**0.5).add_(step.eps)
    x.addcdiv_(m, denominator, value=-step.lr / correction1)

    if step.closes_window():
        M.lerp_(b, 1 - beta1)
        V.mul_(beta2).addcmul_(b, b, value=1 - beta2)
        b.zero_()


def update_foreach(
    step: Step, x: list[Tensor], g: list[Tensor], M: list[Tensor], V: list[Tensor], b: list[Tensor]
) -> None:
    """`update_single` for lists of tensors of one device and dtype, an operation at a time over the whole list."""
    (beta1, beta2), (correction1, correction2) = step.betas, step.bias_corrections()
    if step.weight_decay and step.decoupled_weight_decay:
        torch._foreach_mul_(x, 1 - step.lr * step.weight_decay)
    elif step.weight_decay:
        g = torch._foreach_add(g, x, alpha=step.weight_decay)  # type: ignore[assignment]

    v = torch._foreach_mul(V, beta2)
    torch._foreach_addcmul_(v, g, g, value=1 - beta2)
    torch._foreach_add_(b, g, alpha=1 / step.k)
    m = torch._foreach_lerp(M, g, 1 - beta1)

    if step.eps_inside:
        torch._foreach_div_(v, correction2)
        torch._foreach_add_(v, step.eps)
        torch._foreach_sqrt_(v)
    else:
        torch._foreach_sqrt_(v)
        torch._foreach_div_(v, correction2**0.5)
        torch._foreach_add_(v, step.eps)
    torch._foreach_addcdiv_(x, m, v, value=-step.lr / correction1)

    if step.closes_window():
        torch._foreach_lerp_(M, b, 1 - beta1)
        torch._foreach_mul_(V, beta2)
        torch._foreach_addcmul_(V, b, b, value=1 - beta2)
        torch._foreach_zero_(b)


class AccumAdam(Optimizer):
    """Adam with accumulation windows; weight decay is added to the gradient. The rule stands at the top of the module.

    A tensor without a gradient is left alone and its window does not advance. A partial window is part of the
    state. State of a tensor: `exp_avg` (M), `exp_avg_sq` (V), `window_mean` (b) and the number of its steps, `step`.

    Args:
        params: tensors or parameter groups; a group may set any of the options below.
        lr, betas, eps, weight_decay: η, (β1, β2), ε, λ.
        window: k, in steps; 1 is Adam.
        eps_inside: put ε under the root.
        foreach: update many tensors by one call instead of one by one; the same numbers, faster.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: in `step`, a sparse gradient or a complex parameter.
    """

    decoupled_weight_decay = False

    def __init__(
        self,
        params: Any,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        window: int,
        eps_inside: bool = False,
        foreach: bool = True,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        defaults |= {"window": window, "eps_inside": eps_inside, "foreach": foreach}
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        check_ranges(f"{type(self).__name__} ", self.defaults | param_group)
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every tensor that has a gradient. Returns what `closure`, if given, returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for t, tensors in self._same_step(group):
                numbers = self._numbers(group, t)
                if group["foreach"]:
                    for piece in pieces(tensors, piece_limit(tensors[0][0].device)):
                        update_foreach(numbers, *(list(column) for column in zip(*piece, strict=True)))
                else:
                    for operands in tensors:
                        update_single(numbers, *operands)
        return loss

    def _numbers(self, group: dict[str, Any], t: int) -> Step:
        return Step(
            t=t,
            k=group["window"],
            lr=group["lr"],
            betas=group["betas"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            decoupled_weight_decay=self.decoupled_weight_decay,
            eps_inside=group["eps_inside"],
        )

    def _same_step(self, group: dict[str, Any]) -> list[tuple[int, list[Operands]]]:
        """Counts a step of every tensor with a gradient; t and the tensors at their step t, of one device and dtype."""
        groups: defaultdict[tuple[int, torch.device, torch.dtype], list[Operands]] = defaultdict(list)
        for p in group["params"]:
            if p.grad is None:
                continue
            if p.grad.is_sparse or p.is_complex():
                kind = "sparse gradients" if p.grad.is_sparse else "complex parameters"
                raise RuntimeError(f"{type(self).__name__} does not support {kind}; dense, real tensors work")
            state = self.state[p]
            if not state:
                state["step"] = 0
                for name in ("exp_avg", "exp_avg_sq", "window_mean"):
                    state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
            state["step"] += 1
            operands = (p, p.grad, state["exp_avg"], state["exp_avg_sq"], state["window_mean"])
            groups[state["step"], p.device, p.dtype].append(operands)
        return [(t, tensors) for (t, _, _), tensors in groups.items()]


class AccumAdamW(AccumAdam):
    """`AccumAdam` with decoupled weight decay: x ← (1 − ηλ) x before the update, and nothing added to the gradient."""

    decoupled_weight_decay = True


def piece_limit(device: torch.device) -> int:
    """Elements of a piece: on a CPU it fits into the cache, elsewhere it is large enough to hide the launches."""
    return 2**18 if device.type == "cpu" else 2**24


def pieces(tensors: list[Operands], limit: int) -> Iterator[list[Operands]]:
    """The list cut into pieces of at most `limit` elements a column; a tensor larger than that is a piece of its own.

    The foreach path keeps its temporaries for a piece at a time, instead of two or three times the model.
    """
    piece: list[Operands] = []
    elements = 0
    for operands in tensors:
        size = operands[0].numel()
        if piece and elements + size > limit:
            yield piece
            piece, elements = [], 0
        piece.append(operands)
        elements += size
    yield piece
