"""What the suite asks of a task's package; conf/task/<task> names the package."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

from decent_core.config.choices import choices, scales_of
from decent_core.config.compose import compose

if TYPE_CHECKING:
    from torch import nn


class TaskPackage(Protocol):
    """A package with one learning problem or several of a kind; importing it must be quick."""

    Settings: type  # a frozen dataclass: the keys under `task.`
    PLOTS: Any  # a `decent_core.tracking.panels.TaskPlots`: what it shows in a dashboard

    def build(self, settings: Any, seed: int, world_size: int) -> Any:
        """A `decent_core.training.task.Task` for `world_size` workers.

        Raises ValueError if the batch can't be shared or the data isn't prepared.
        """

    def build_model(self, settings: Any) -> "nn.Module | None":
        """The model without its data, for counting parameters on the meta device; None if only the data can tell."""

    def prepare(self, settings: Any, progress: Callable[[int, int], None]) -> str:
        """Prepare the data and say what is there; a package without data has none."""


def all_task_packages() -> list[TaskPackage]:
    """The packages that conf/task names, each once."""
    packages = [compose([f"task={task}", f"scale={scales_of(task)[0]}"], complete=False)[1]["package"]
                for task in choices("task")]  # fmt: skip
    return [import_task(str(package)) for package in dict.fromkeys(packages)]


def import_task(package: str) -> TaskPackage:
    """The package of a task; ValueError if there is no such package."""
    try:
        return cast(TaskPackage, importlib.import_module(package))
    except ModuleNotFoundError as error:
        raise ValueError(f"task.package={package}: cannot be imported ({error})") from None
