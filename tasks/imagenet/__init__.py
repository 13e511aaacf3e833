"""Image classification with residual networks: Fashion-MNIST, or ImageNet as users have it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from decent_core.tracking.panels import VALIDATION_LOSS, Curves, Finals, TaskPlots
from tasks.imagenet.settings import Settings

if TYPE_CHECKING:
    from torch import nn

    from decent_core.training.task import Task

__all__ = ["PLOTS", "Settings", "build", "build_model", "prepare"]

PLOTS = TaskPlots(
    curves=(*VALIDATION_LOSS.curves, Curves("Top-1 accuracy by step", ("top1",))),
    finals=(*VALIDATION_LOSS.finals, Finals("Top-1 accuracy", ("top1", "local_top1"))),
    columns=("val_loss", "top1"),
)


def build(settings: Settings, seed: int, world_size: int) -> "Task":
    """The task for `world_size` workers; ValueError if the batch can't be shared or the data isn't there."""
    from tasks.imagenet.task import ImageTask  # torchvision takes seconds to import; settings and tables don't need it

    return ImageTask(settings, seed, world_size)


def build_model(settings: Settings) -> "nn.Module | None":
    """The model with its initial weights; None where only the data say how many classes there are."""
    from tasks.imagenet.fashion import CLASSES
    from tasks.imagenet.model import build_model as build_for
    from tasks.imagenet.settings import FASHION, ILSVRC_CLASSES

    classes = CLASSES if settings.dataset in FASHION else ILSVRC_CLASSES if settings.dataset == "ilsvrc" else None
    return None if classes is None else build_for(settings, classes)


def prepare(settings: Settings, progress: Callable[[int, int], None]) -> str:
    """Fetches or unpacks the data set of `settings` (resuming what was begun); see tasks/imagenet/preparation.py."""
    from tasks.imagenet.preparation import prepare as prepare_images

    return prepare_images(settings, progress)
