"""Full-batch linear regression, whose optimum and whose methods' fixed points are known exactly."""

from typing import TYPE_CHECKING

from tasks.regression.settings import Settings

if TYPE_CHECKING:
    from torch import nn

    from decent_core.training.task import Task

__all__ = ["Settings", "build", "build_model"]


def build(settings: Settings, seed: int, world_size: int) -> "Task":
    """The task for `world_size` workers. Nothing in it is random but the data, which follow from `data_seed`."""
    from tasks.regression.task import RegressionTask

    return RegressionTask(settings, world_size)


def build_model(settings: Settings) -> "nn.Module":
    """The point that is optimised."""
    from tasks.regression.task import Point

    return Point(settings.dimension)
