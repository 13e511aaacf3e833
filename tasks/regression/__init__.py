"""Full-batch linear regression, whose optimum and whose methods' fixed points are known exactly."""

from typing import TYPE_CHECKING

from decent_core.tracking.panels import Curves, Finals, TaskPlots
from tasks.regression.settings import Settings

if TYPE_CHECKING:
    from torch import nn

    from decent_core.training.task import Task

__all__ = ["PLOTS", "Settings", "build", "build_model"]

_DISTANCE = "Squared distance to the optimum, log10"
PLOTS = TaskPlots(
    curves=(Curves(_DISTANCE, ("log10_squared_distance",)),),
    finals=(Finals(_DISTANCE, ("log10_squared_distance", "local_log10_squared_distance")),),
    columns=("log10_squared_distance",),
)


def build(settings: Settings, seed: int, world_size: int) -> "Task":
    """The task for `world_size` workers. Nothing in it is random but the data, which follow from `data_seed`."""
    from tasks.regression.task import RegressionTask

    return RegressionTask(settings, world_size)


def build_model(settings: Settings) -> "nn.Module":
    """The point that is optimised."""
    from tasks.regression.task import Point

    return Point(settings.dimension)
