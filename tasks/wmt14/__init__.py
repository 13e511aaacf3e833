"""Translation by the Transformer: WMT14 English-German and English-French, or the embedded LibreOffice help."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tasks.wmt14.settings import Settings

if TYPE_CHECKING:
    from decent_core.task import Task

__all__ = ["Settings", "build", "prepare"]


def build(settings: Settings, seed: int, world_size: int) -> "Task":
    """The task for `world_size` workers; ValueError if the batch can't be shared or the data isn't prepared."""
    from tasks.wmt14.task import (
        TranslationTask,
    )  # transformers takes seconds to import; settings and tables don't need it

    return TranslationTask(settings, seed, world_size)


def prepare(settings: Settings, progress: Callable[[int, int], None]) -> str:
    """Writes the token files of `settings` (resuming what was begun); see tasks/wmt14/prepare.py."""
    from tasks.wmt14.prepare import prepare as prepare_tokens

    return prepare_tokens(settings, progress)
