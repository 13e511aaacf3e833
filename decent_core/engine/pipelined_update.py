"""Updates parameters inside the backward pass: each as soon as its gradient and its mixed value are there."""

from decent_core.engine.chunks import ReadyPrefix
from decent_core.engine.replicas import Replicas
from decent_core.methods import Pending
from decent_core.optim import only

PIECES = 16  # of a row: fewer parameters than such a piece are not worth an update of their own in the backward pass


class PipelinedUpdate:
    """x <- the mixed rows, then one optimizer step, from the last column to the first.

    `prefix` is told which columns are final, for the exchange of the next step.

    `piecewise`, a single worker's parameters are updated as soon as that is possible; else all at once, by one step of
    the optimizer: workers take turns in the module, and a loss scaler or a clipping norm decides for the whole step.
    """

    def __init__(
        self,
        replicas: Replicas,
        mixing: Pending,
        clip_norm: float | None,
        prefix: ReadyPrefix | None,
        piecewise: bool,
    ):
        self.replicas, self.mixing, self.clip_norm, self.prefix = replicas, mixing, clip_norm, prefix
        self.piecewise = piecewise and replicas.count == 1 and not replicas.scalers[0].is_enabled()
        self.layout = replicas.layout
        self.updated = len(self.layout.parameters)  # all parameters from this number on are
        self.with_gradient = self.updated  # all parameters from this number on have theirs
        self.ready: set[int] = set()

    def gradient_ready(self, number: int) -> None:
        """The gradient of a parameter is complete, and its value is not needed any more: update what can be."""
        self.ready.add(number)
        while self.with_gradient - 1 in self.ready:
            self.with_gradient -= 1
        size = self.layout.size
        done, ready = (size - self.layout.starts(first) for first in (self.updated, self.with_gradient))
        if ready - done >= size / PIECES:
            self._update_from(max(self.with_gradient, self.layout.first_within(self.mixing.completed(0))))

    def finish(self) -> None:
        """All gradients are there: update the rest as it arrives."""
        if not self.piecewise:
            self._finish_together()
            return
        if self.clip_norm is not None:
            self.replicas.unscale_and_clip(0, self.clip_norm)
        while self.updated:
            least = self.layout.size - self.layout.starts(self.updated - 1)
            self._update_from(self.layout.first_within(self.mixing.completed(least)))

    def abandon(self) -> None:
        """The step has failed: the exchange that waits for its result ends with an error."""
        if self.prefix is not None:
            self.prefix.fail()

    def _finish_together(self) -> None:
        self.replicas.rows.copy_(self.mixing.wait())
        for index in range(self.replicas.count):
            self.replicas.update(index, self.clip_norm)
        if self.prefix is not None:
            self.prefix.mark_ready(self.layout.size)

    def _update_from(self, first: int) -> None:
        if first >= self.updated:
            return
        columns = slice(self.layout.starts(first), self.layout.starts(self.updated))
        self.replicas.rows[:, columns].copy_(self.mixing.mixed[:, columns])
        optimizer = self.replicas.optimizers[0]
        with only(optimizer, self.layout.parameters[first : self.updated]):
            optimizer.step()
        self.updated = first
        if self.prefix is not None:
            self.prefix.mark_ready(self.layout.size - columns.start)
