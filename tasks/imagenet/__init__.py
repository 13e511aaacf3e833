"""Image classification with residual networks: Fashion-MNIST, or ImageNet as users have it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tasks.imagenet.settings import Settings

if TYPE_CHECKING:
    from decent_core.task import Task

__all__ = ["Settings", "build", "prepare"]


def build(settings: Settings, seed: int, world_size: int) -> "Task":
    """The task for `world_size` workers; ValueError if the batch can't be shared or the data isn't there."""
    from tasks.imagenet.task import ImageTask  # torchvision takes seconds to import; settings and tables don't need it

    return ImageTask(settings, seed, world_size)


def prepare(settings: Settings, progress: Callable[[int, int], None]) -> str:
    """Fetches or unpacks the data set of `settings` (resuming what was begun); see tasks/imagenet/prepare.py."""
    from tasks.imagenet.prepare import prepare as prepare_images

    return prepare_images(settings, progress)
