"""A small translation task for tests: parallel files cut out of the embedded help, prepared once for all tests."""

import tempfile
from functools import cache
from pathlib import Path

import torch

from tasks.wmt14.preparation import prepare
from tasks.wmt14.settings import Settings
from tasks.wmt14.source import Help
from tasks.wmt14.task import TranslationTask

PAIRS = {"train": 600, "valid": 40, "test": 24}
TINY = {
    "name": "wmt14_en_de", "dataset": "unused", "data_dir": "unused", "vocabulary": 512, "validation_every": None,
    "validation_pairs": None, "test_pairs": None, "batch_tokens": 512, "max_length": 24, "validation_batch_tokens": 512,
    "decode_batch": 5, "decode_every_evaluation": False, "model": "marian", "layers": 2, "heads": 2, "width": 16,
    "feed_forward": 32, "positions": 256, "dropout": 0.1, "label_smoothing": 0.1, "beam": 4, "length_penalty": 0.6,
    "extra_length": 8, "meteor": False,
}  # fmt: skip


def plain_settings(**changes) -> Settings:
    return Settings(**{**TINY, **changes})


def write_pairs(folder: Path, pairs: dict[str, list[tuple[str, str]]]) -> Path:
    """Parallel files train, valid and test of English and German."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in pairs.items():
        for column, language in enumerate(("en", "de")):
            (folder / f"{split}.{language}").write_text("".join(f"{row[column]}\n" for row in rows), encoding="utf-8")
    return folder


@cache
def help_pairs() -> dict[str, list[tuple[str, str]]]:
    """A few short pairs of each split of the embedded help."""
    source = Help(("en", "de"))
    found = {}
    for split, count in PAIRS.items():
        pairs = [pair for piece in source.pieces(split, 0) for pair in piece if max(map(len, pair)) <= 70]
        found[split] = pairs[:: max(1, len(pairs) // count)][:count]
    return found


@cache
def _prepared() -> tuple[tempfile.TemporaryDirectory, dict[str, str]]:
    scratch = tempfile.TemporaryDirectory()
    text = write_pairs(Path(scratch.name) / "text", help_pairs())
    places = {"dataset": str(text), "data_dir": scratch.name}
    prepare(plain_settings(**places), lambda done, total: None, processes=1)
    return scratch, places


def settings(**changes) -> Settings:
    """Settings whose data is prepared (unless the changes ask for other data)."""
    return plain_settings(**{**_prepared()[1], **changes})


def places() -> dict[str, str]:
    """Where the prepared data lies: for tests whose ranks are other processes."""
    return _prepared()[1]


def build_from(places: dict[str, str], world_size: int, **changes) -> TranslationTask:
    return TranslationTask(plain_settings(**places, **changes), 1, world_size)


def build(world_size: int = 1, seed: int = 1, **changes) -> TranslationTask:
    return TranslationTask(settings(**changes), seed, world_size)


@cache
@torch.enable_grad()
def trained() -> tuple[TranslationTask, torch.nn.Module]:
    """A task, and a model that has learnt enough not to translate everything alike."""
    task = build(width=32, feed_forward=64, dropout=0.0, batch_tokens=1024)
    torch.manual_seed(0)
    model = task.build_model()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(200):
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, (step + 1) / 30)
        batch = task.batch(step, 0)
        optimizer.zero_grad()
        (task.loss_sum(model, batch) / task.weight(batch)).backward()
        optimizer.step()
    return task, model.eval()
