"""The local workers' models: one module, and a row of parameters, buffers, gradients and an optimizer for each."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from decent_core.engine.flat import FlatLayout
from decent_core.optim import add_coupled_decay, without_coupled_decay


class Replicas:
    """`count` replicas of `model` that take turns in it.

    `rows` [L, D] holds the trainable parameters. Frozen parameters are shared, buffers are a worker's own. `bound` is
    the worker whose tensors the module holds now.
    """

    def __init__(self, model: nn.Module, count: int, build_optimizer: Callable[[nn.Module], Optimizer], scaled: bool):
        self.model, self.count = model, count
        self.layout = FlatLayout(model)
        self.rows = torch.zeros(count, self.layout.size, dtype=self.layout.dtype, device=self.layout.device)
        for row in self.rows:
            self.layout.flatten([p.data for p in self.layout.parameters], out=row)
        self.views = [self.layout.views(row) for row in self.rows]
        self.module_buffers = list(model.buffers())
        self.buffers = [[b.detach().clone() for b in self.module_buffers] for _ in range(count)]
        self.gradients: list[list[Tensor | None]] = [[None] * len(self.layout.parameters) for _ in range(count)]
        self.bound = 0
        self._place(self.views[0], self.buffers[0])
        self.optimizers = [build_optimizer(model) for _ in range(count)]
        device = self.layout.device.type
        self.scalers = [torch.amp.GradScaler(device, enabled=scaled) for _ in range(count)]
        self._momentum: Tensor | None = None

    def _place(self, parameters: Sequence[Tensor], buffers: Sequence[Tensor]) -> None:
        for parameter, view in zip(self.layout.parameters, parameters, strict=True):
            parameter.data = view
        for buffer, own in zip(self.module_buffers, buffers, strict=True):
            buffer.data = own

    def bind(self, index: int) -> None:
        """Put local worker `index` into the module: parameters, buffers and gradients."""
        if index == self.bound:
            return
        self.stash_gradients()
        self._place(self.views[index], self.buffers[index])
        for parameter, gradient in zip(self.layout.parameters, self.gradients[index], strict=True):
            parameter.grad = gradient
        self.bound = index

    def stash_gradients(self) -> None:
        """Note the bound worker's gradients in `gradients`."""
        self.gradients[self.bound] = [p.grad for p in self.layout.parameters]

    def replace_gradients(self, gradients: list[list[Tensor | None]]) -> None:
        """Give every local worker these gradients (None: the optimizer leaves the tensor alone)."""
        self.gradients = gradients
        for parameter, gradient in zip(self.layout.parameters, gradients[self.bound], strict=True):
            parameter.grad = gradient

    def clear_gradients(self) -> None:
        """Forget all gradients."""
        self.replace_gradients([[None] * len(self.layout.parameters) for _ in range(self.count)])

    @contextmanager
    def replaced(self, row: Tensor, buffers: Sequence[Tensor]) -> Iterator[nn.Module]:
        """The module with the parameters of `row` [D] and these buffers; afterwards it has the bound worker's again."""
        self._place(self.layout.views(row), buffers)
        try:
            yield self.model
        finally:
            self._place(self.views[self.bound], self.buffers[self.bound])

    def update(self, index: int, clip_norm: float | None) -> None:
        """One optimizer step of a local worker: one unscaling, one clipping norm, one decision to step or to skip."""
        self.unscale_and_clip(index, clip_norm)
        self.scalers[index].step(self.optimizers[index])
        self.scalers[index].update()

    def take_gradients(self, clip_norm: float | None) -> Tensor:
        """All gradients as rows [L, D] with coupled weight decay in them, and none left in the module.

        The scaler's one decision: the row of a worker with a gradient that is not finite becomes zero.
        """
        rows = torch.empty_like(self.rows)
        for index, row in enumerate(rows):
            self.unscale_and_clip(index, clip_norm)
            add_coupled_decay(self.optimizers[index])
            self.layout.flatten([p.grad for p in self.layout.parameters], out=row)
            if self.scalers[index].is_enabled() and not torch.isfinite(row).all():
                row.zero_()
            self.scalers[index].update()
        self.clear_gradients()
        return rows

    def step_along(self, directions: Tensor) -> None:
        """One optimizer step of every local worker with the rows of `directions` [L, D] for gradients."""
        for index, row in enumerate(directions):
            self.bind(index)
            optimizer = self.optimizers[index]
            # torch's foreach path adds a Nesterov momentum into the gradient itself
            row = row.clone() if optimizer.defaults.get("nesterov") else row
            for parameter, view in zip(self.layout.parameters, self.layout.views(row), strict=True):
                parameter.grad = view
            with without_coupled_decay(optimizer):
                optimizer.step()
        self.clear_gradients()

    @property
    def momentum(self) -> Tensor:
        """The momentum buffers of the local SGDs, from now on views of rows [L, D]."""
        if self._momentum is None:
            self._momentum = torch.zeros_like(self.rows)
            for row, optimizer in zip(self._momentum, self.optimizers, strict=True):
                for parameter, view in zip(self.layout.parameters, self.layout.views(row), strict=True):
                    own = optimizer.state[parameter]
                    if (buffer := own.get("momentum_buffer")) is not None:
                        view.copy_(buffer)
                    own["momentum_buffer"] = view
        return self._momentum

    def unscale_and_clip(self, index: int, clip_norm: float | None) -> None:
        """Put a local worker into the module and its gradients into the units of the loss."""
        self.bind(index)
        if self.scalers[index].is_enabled():
            self.scalers[index].unscale_(self.optimizers[index])
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(self.layout.parameters, clip_norm)

    def state_dict(self) -> dict:
        """Everything of the local workers that a later step depends on."""
        return {
            "rows": self.rows,
            "buffers": self.buffers,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "scalers": [scaler.state_dict() for scaler in self.scalers],
        }

    def load_state_dict(self, state: dict) -> None:
        self.rows.copy_(state["rows"])
        for own, saved in zip(self.buffers, state["buffers"], strict=True):
            for tensor, value in zip(own, saved, strict=True):
                tensor.copy_(value)
        self._momentum = None  # loading gives the optimizers tensors of their own
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for scaler, saved in zip(self.scalers, state["scalers"], strict=True):
            scaler.load_state_dict(saved)
