"""Translation by the Transformer: WMT14 English-German and English-French, or the embedded LibreOffice help."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from decent_core.tracking.panels import VALIDATION_LOSS, Finals, TaskPlots
from tasks.wmt14.settings import Settings

if TYPE_CHECKING:
    from torch import nn

    from decent_core.training.task import Task

__all__ = ["PLOTS", "Settings", "build", "build_model", "prepare"]

PLOTS = TaskPlots(
    curves=VALIDATION_LOSS.curves,
    finals=(*VALIDATION_LOSS.finals, Finals("BLEU and METEOR", ("bleu", "meteor"))),
    columns=("val_loss", "bleu"),
)


def build(settings: Settings, seed: int, world_size: int) -> "Task":
    """The task for `world_size` workers; ValueError if the batch can't be shared or the data isn't prepared."""
    from tasks.wmt14.task import (
        TranslationTask,
    )  # transformers takes seconds to import; settings and tables don't need it

    return TranslationTask(settings, seed, world_size)


def build_model(settings: Settings) -> "nn.Module | None":
    """The model with its initial weights; None for fairseq's, which needs its dictionaries."""
    from tasks.wmt14.model import MarianTransformer

    return MarianTransformer(settings) if settings.model == "marian" else None


def prepare(settings: Settings, progress: Callable[[int, int], None]) -> str:
    """Writes the token files of `settings` (resuming what was begun); see tasks/wmt14/preparation.py."""
    from tasks.wmt14.preparation import prepare as prepare_tokens

    return prepare_tokens(settings, progress)
