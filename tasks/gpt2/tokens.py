"""Prepared token files: `train.bin` and `val.bin` (uint16, end-of-text behind every document), and their manifest."""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.gpt2.settings import Settings

FORMAT = 1


@dataclass(frozen=True)
class Tokens:
    """One-dimensional uint16 arrays, mapped from disk."""

    train: np.ndarray
    validation: np.ndarray
    end_of_text: int


def identity(settings: Settings) -> dict[str, Any]:
    """All that decides the content of the token files."""
    return {
        "format": FORMAT,
        "dataset": settings.dataset,
        "tokenizer": settings.tokenizer,
        "bpe_entries": settings.vocabulary if settings.tokenizer == "sotu" else None,
        "validation_fraction": settings.validation_fraction,
        "split_seed": settings.split_seed,
    }


def token_folder(settings: Settings) -> Path:
    """Where the token files of `settings` lie; other content has another folder."""
    key = hashlib.sha256(json.dumps(identity(settings)).encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(settings.dataset).name)
    entries = settings.vocabulary if settings.tokenizer == "sotu" else ""
    return Path(settings.data_dir) / f"{name}-{settings.tokenizer}{entries}-{key}"


def load_tokens(settings: Settings) -> Tokens:
    """The prepared token files; ValueError says which command prepares them."""
    folder = token_folder(settings)
    manifest = read_manifest(folder)
    if manifest is None or not manifest["complete"]:
        state = "are not prepared" if manifest is None else "are prepared only in part"
        raise ValueError(
            f"The token files of task.dataset={settings.dataset} {state} (looked for {folder}). Prepare them with: "
            f"python -m scripts.prepare task=gpt2 (with the same scale and task overrides as this run)"
        )
    train, validation = (np.memmap(folder / f"{split}.bin", dtype=np.uint16, mode="r") for split in ("train", "val"))
    if (len(train), len(validation)) != (manifest["train_tokens"], manifest["validation_tokens"]):
        raise ValueError(f"The files in {folder} are not those of its manifest. Delete it and prepare again.")
    return Tokens(train, validation, manifest["end_of_text"])


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a token folder, None if nothing was begun there."""
    path = folder / "manifest.json"
    return json.loads(path.read_text()) if path.exists() else None


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replaces the manifest in one piece."""
    path = folder / "manifest.json.partial"
    with path.open("w") as file:
        json.dump(manifest, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    path.replace(folder / "manifest.json")
