"""GPT-2 on text: the embedded State of the Union addresses, or OpenWebText."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from decent_core.tracking.panels import VALIDATION_LOSS
from tasks.gpt2.settings import Settings

if TYPE_CHECKING:
    from torch import nn

    from decent_core.training.task import Task

__all__ = ["PLOTS", "Settings", "build", "build_model", "prepare"]

PLOTS = VALIDATION_LOSS


def build(settings: Settings, seed: int, world_size: int) -> "Task":
    """The task for `world_size` workers; ValueError if the batch can't be shared or the data isn't prepared."""
    from tasks.gpt2.task import Gpt2Task  # transformers takes seconds to import; settings and tables don't need it

    return Gpt2Task(settings, seed, world_size)


def build_model(settings: Settings) -> "nn.Module":
    """The model with its initial weights; it needs no data."""
    from tasks.gpt2.model import build_gpt2

    return build_gpt2(settings)


def prepare(settings: Settings, progress: Callable[[int, int], None]) -> str:
    """Writes the token files of `settings` (resuming what was begun); see tasks/gpt2/preparation.py."""
    from tasks.gpt2.preparation import prepare as prepare_tokens

    return prepare_tokens(settings, progress)
