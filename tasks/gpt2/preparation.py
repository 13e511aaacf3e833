"""Writes the token files of a configuration, and continues where a killed run stopped."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tasks.common.parallel import cores, ordered_map
from tasks.common.preparing import Progress, folder_lock
from tasks.gpt2.bpe import Bpe, gpt2_bpe, train_bpe
from tasks.gpt2.settings import Settings
from tasks.gpt2.source import Embedded, Piece, Source, open_source
from tasks.gpt2.tokens import identity, read_manifest, token_folder
from tasks.gpt2.writer import TokenWriter

CHECKPOINT_SECONDS = 5.0


def prepare(settings: Settings, progress: Progress, processes: int | None = None) -> str:
    """Tokenises `settings.dataset` over `processes` (None: one a core) and returns a summary for people.

    Progress is told in documents, first those that an earlier run has done.

    The files are the same however often the run is killed and started again. Memory stays bounded: about a
    thousand documents a process. ValueError if the data set can't be read.
    """
    folder = token_folder(settings)
    manifest, speed = read_manifest(folder), "prepared before"
    if not _complete(manifest):
        with folder_lock(folder):
            manifest = read_manifest(folder)
            if not _complete(manifest):
                speed = _prepare(settings, folder, manifest, progress, processes or cores())
                manifest = read_manifest(folder)
    assert manifest is not None
    return (
        f"{folder}: {manifest['documents']:,} documents, {manifest['train_tokens']:,} training tokens, "
        f"{manifest['validation_tokens']:,} validation tokens; {speed}"
    )


def _complete(manifest: dict[str, Any] | None) -> bool:
    return manifest is not None and manifest["complete"]


def _prepare(
    settings: Settings, folder: Path, manifest: dict[str, Any] | None, progress: Progress, processes: int
) -> str:
    source = open_source(settings.dataset)
    held_out = source.held_out(settings.validation_fraction, settings.split_seed)
    if len(held_out) >= source.count:
        raise ValueError(
            f"task.validation_fraction={settings.validation_fraction} holds out all {source.count} documents of "
            f"task.dataset={settings.dataset}: give a smaller one or more documents."
        )
    bpe = _tokenizer(settings, folder, manifest)
    writer = TokenWriter(folder, manifest or _new_manifest(settings, bpe), held_out)
    progress(writer.documents, source.count)
    began, tokens_before = time.monotonic(), writer.tokens
    checkpointed = began
    for documents, state in ordered_map(encode_piece, source.pieces(writer.state), bpe, processes):
        writer.add(documents, state)
        progress(writer.documents, source.count)
        if time.monotonic() - checkpointed > CHECKPOINT_SECONDS:
            writer.checkpoint()
            checkpointed = time.monotonic()
    _check_count(settings, source, writer)
    writer.finish()
    seconds = time.monotonic() - began
    rate = (writer.tokens - tokens_before) / seconds / processes
    return f"{seconds:.1f} s on {processes} cores, {rate:,.0f} tokens/s a core"


def _new_manifest(settings: Settings, bpe: Bpe) -> dict[str, Any]:
    counts = {"documents": 0, "train_tokens": 0, "validation_tokens": 0}
    return {**identity(settings), "end_of_text": bpe.end_of_text, **counts, "state": None, "complete": False}


def _tokenizer(settings: Settings, folder: Path, manifest: dict[str, Any] | None) -> Bpe:
    """The tokenizer that was begun with, else a new one, which is kept beside the tokens."""
    path = folder / "tokenizer.json"
    if manifest is not None:
        return Bpe(Tokenizer.from_file(str(path)), manifest["end_of_text"])
    if settings.tokenizer == "gpt2":
        bpe = gpt2_bpe()
    else:
        texts = Embedded().training_texts(settings.validation_fraction, settings.split_seed)
        bpe = train_bpe(texts, settings.vocabulary)
    bpe.tokenizer.save(str(path))
    return bpe


def _check_count(settings: Settings, source: Source, writer: TokenWriter) -> None:
    if writer.documents != source.count:
        raise ValueError(
            f"task.dataset={settings.dataset} gave {writer.documents} documents where {source.count} were expected, "
            f"so the validation split is not the intended one. Delete {token_folder(settings)} and prepare again."
        )


def encode_piece(piece: Piece, bpe: Bpe) -> tuple[list[np.ndarray], Any]:
    """The documents' ids, and where the source is behind them."""
    texts, state = piece
    return bpe.encode(texts), state
