"""Parallel text -> tokenised text -> joint BPE -> token files in fairseq's format; continues where it was killed."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tasks.common.parallel import cores, ordered_map
from tasks.common.preparing import Progress, folder_lock
from tasks.wmt14.binarised import token_type, write_index
from tasks.wmt14.bpe import Bpe, learn_bpe, load_bpe
from tasks.wmt14.clean import clean
from tasks.wmt14.files import GrowingFiles, identity, prepared_folder, read_manifest
from tasks.wmt14.settings import Settings
from tasks.wmt14.source import PIECE, SPLITS, Pair, Source, open_source


def prepare(settings: Settings, progress: Progress, processes: int | None = None) -> str:
    """Prepares `settings.dataset` over `processes` (None: one a core) and returns a summary for people.

    Progress is told in pairs, each of which is done twice, cleaned and encoded.

    The files are the same however often the run is killed and started again, and for any number of processes. Memory
    holds a few thousand pairs a process, and while BPE is learnt the distinct words. ValueError if the data is no use.
    """
    if (Path(settings.dataset) / f"dict.{settings.languages[0]}.txt").exists():
        return f"{settings.dataset} is binarised by fairseq and is read as it is."
    folder = prepared_folder(settings)
    manifest = read_manifest(folder)
    if not _complete(manifest):
        with folder_lock(folder):
            manifest = read_manifest(folder)
            if not _complete(manifest):
                manifest = _Preparation(settings, folder, manifest, progress, processes or cores()).run()
    assert manifest is not None
    counts = ", ".join(f"{name} {count:,}" for name, count in manifest["counts"].items())
    return f"{folder}: {counts}; {manifest['speed']}"


def _complete(manifest: dict[str, Any] | None) -> bool:
    return manifest is not None and manifest["phase"] == "complete"


class _Preparation:
    """One folder on its way through the phases clean, learn, encode."""

    def __init__(
        self, settings: Settings, folder: Path, manifest: dict[str, Any] | None, progress: Progress, processes: int
    ) -> None:
        self.settings, self.folder, self.progress, self.processes = settings, folder, progress, processes
        self.source: Source = open_source(settings.dataset, settings.languages)
        self.splits = [split for split in SPLITS if split != "valid" or settings.validation_every is None]
        self.total = sum(self.source.counts[split] for split in self.splits)
        new = {**identity(settings), "phase": "clean", "done": {}, "sizes": {}, "counts": {}, "speed": ""}
        self.files = GrowingFiles(folder, manifest or new)

    @property
    def manifest(self) -> dict[str, Any]:
        return self.files.manifest

    def run(self) -> dict[str, Any]:
        began, before = time.monotonic(), self._passed()
        if self.manifest["phase"] == "clean":
            for split in self.splits:
                self._clean(split)
            self._next_phase("learn")
        if self.manifest["phase"] == "learn":
            learn_bpe(self._training_text, self.settings.vocabulary).save(self.folder / "bpe.json")
            self._next_phase("encode")
        if self.manifest["phase"] == "encode":
            bpe = load_bpe(self.folder / "bpe.json")
            for split in SPLITS:
                self._encode(split, bpe)
            self._write_dictionary(bpe)
        seconds = time.monotonic() - began
        rate = (2 * self.total - before) / 2 / seconds / self.processes
        self.manifest["speed"] = f"{seconds:.1f} s on {self.processes} cores, {2 * rate:,.0f} sentences/s a core"
        self._next_phase("complete")
        for path in self.folder.glob("*.lengths"):
            path.unlink()
        return self.manifest

    def _clean(self, split: str) -> None:
        """Tokenised text of a split, one line a kept pair; the test's raw text beside it."""
        done = self.manifest["done"].get(split, 0)
        pieces = self.source.pieces(split, done)
        for piece in ordered_map(_clean_piece, pieces, self.settings.languages, self.processes):
            for raw, tokens, skipped in piece:
                done += 1
                if skipped and split == "test":
                    raise ValueError(
                        f"Test pair {done} of task.dataset={self.settings.dataset} can't be scored: {skipped}."
                    )
                every = self.settings.validation_every
                into = "valid" if split == "train" and every is not None and done % every == 0 else split
                self._count(f"skipped: {skipped}" if skipped else into)
                if not skipped:
                    self._write_pair(into, raw, tokens)
            self.manifest["done"][split] = done
            self.files.settle(now=False)
            self.progress(self._passed(), 2 * self.total)
        if done != self.source.counts[split]:
            raise ValueError(
                f"task.dataset={self.settings.dataset} gave {done} pairs of {self.source.counts[split]} in {split}."
            )

    def _write_pair(self, split: str, raw: Pair, tokens: tuple[str, str]) -> None:
        for language, text, line in zip(self.settings.languages, raw, tokens, strict=True):
            self.files.write(f"text/{split}.{language}", f"{line}\n".encode())
            if split == "test":
                self.files.write(f"test.{language}", f"{' '.join(str(text).split())}\n".encode())

    def _encode(self, split: str, bpe: Bpe) -> None:
        """.bin and .idx of both languages of a split."""
        kind = token_type(self.settings.vocabulary)
        for language in self.settings.languages:
            name = f"{split}.{'-'.join(self.settings.languages)}.{language}"
            done = self.manifest["done"].setdefault(f"encoded {name}", 0)
            pieces = _pieces(self.folder / f"text/{split}.{language}", done)
            for ids in ordered_map(_encode_piece, pieces, bpe, self.processes):
                self.files.write(f"{name}.bin", np.concatenate(ids).astype(kind).tobytes())
                self.files.write(f"{name}.lengths", np.array([len(line) for line in ids], np.int32).tobytes())
                self.manifest["done"][f"encoded {name}"] += len(ids)
                self.files.settle(now=False)
                self.progress(self._passed(), 2 * self.total)
            self.files.settle()
            if not done and not self.manifest["done"][f"encoded {name}"]:
                raise ValueError(f"task.dataset={self.settings.dataset} leaves no pair in its split {split}.")
            lengths = np.fromfile(self.folder / f"{name}.lengths", np.int32)
            write_index(self.folder / f"{name}.idx", lengths, kind)

    def _write_dictionary(self, bpe: Bpe) -> None:
        pair = "-".join(self.settings.languages)
        counts = np.zeros(self.settings.vocabulary, np.int64)
        for language in self.settings.languages:
            tokens = np.memmap(
                self.folder / f"train.{pair}.{language}.bin", token_type(self.settings.vocabulary), mode="r"
            )
            for start in range(0, len(tokens), 1 << 24):
                counts += np.bincount(tokens[start : start + (1 << 24)], minlength=len(counts))
        for language in self.settings.languages:
            bpe.dictionary(counts).save(self.folder / f"dict.{language}.txt")

    def _training_text(self) -> Iterator[str]:
        for language in self.settings.languages:
            with (self.folder / f"text/train.{language}").open(encoding="utf-8", newline="\n") as file:
                yield from file

    def _count(self, what: str) -> None:
        self.manifest["counts"][what] = self.manifest["counts"].get(what, 0) + 1

    def _passed(self) -> int:
        done = self.manifest["done"]
        encoded = sum(count for name, count in done.items() if name.startswith("encoded")) // 2
        return sum(done.get(split, 0) for split in self.splits) + encoded

    def _next_phase(self, phase: str) -> None:
        self.manifest["phase"] = phase
        self.files.close()


def _clean_piece(pairs: list[Pair], languages: tuple[str, str]) -> list[tuple[Pair, tuple[str, str], str]]:
    """For each pair its raw text, its tokens, and why it is skipped (empty: it is not)."""
    found = []
    for pair in pairs:
        if None in pair:
            found.append((pair, ("", ""), "invalid UTF-8"))
            continue
        source, target = (clean(str(text), language) for text, language in zip(pair, languages, strict=True))
        found.append((pair, (source, target), "" if source and target else "empty line"))
    return found


def _encode_piece(lines: list[str], bpe: Bpe) -> list[np.ndarray]:
    return bpe.encode(lines)


def _pieces(path: Path, first: int) -> Iterator[list[str]]:
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="\n") as file:
        lines = islice((line.rstrip("\n") for line in file), first, None)
        while piece := list(islice(lines, PIECE)):
            yield piece
