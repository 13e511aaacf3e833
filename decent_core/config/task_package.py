"""What the suite asks of a task's package; conf/task/<task> names the package."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from torch import nn


class TaskPackage(Protocol):
    """A package with one learning problem or several of a kind; importing it must be quick."""

    Settings: type  # a frozen dataclass: the keys under `task.`

    def build(self, settings: Any, seed: int, world_size: int) -> Any:
        """A `decent_core.training.task.Task` for `world_size` workers.

        Raises ValueError if the batch can't be shared or the data isn't prepared.
        """

    def build_model(self, settings: Any) -> "nn.Module | None":
        """The model without its data, for counting parameters on the meta device; None if only the data can tell."""

    def prepare(self, settings: Any, progress: Callable[[int, int], None]) -> str:
        """Prepare the data and say what is there; a package without data has none."""


def import_task(package: str) -> TaskPackage:
    """The package of a task; ValueError if there is no such package."""
    try:
        return cast(TaskPackage, importlib.import_module(package))
    except ModuleNotFoundError as error:
        raise ValueError(f"task.package={package}: cannot be imported ({error})") from None
