"""Where sentence pairs come from: the embedded help, the Hugging Face hub or parallel files; the order is fixed."""

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from tasks import assets

PIECE = 1_000  # pairs that are handed on at a time
SPLITS = ("train", "valid", "test")
HELD_OUT_PERCENT = 2  # of the help files, for validation and again for the test

HUB_NAMES = {"train": "train", "valid": "validation", "test": "test"}

#: source and target sentence; None where the text is not valid UTF-8
Pair = tuple[str | None, str | None]


class Source(Protocol):
    """Sentence pairs of the three splits in a fixed order."""

    counts: dict[str, int]  # pairs in each split

    def pieces(self, split: str, first: int) -> Iterator[list[Pair]]:
        """The pairs of a split from number `first` on."""


def open_source(dataset: str, languages: tuple[str, str]) -> Source:
    """The pairs of `task.dataset`; ValueError if there are none."""
    if dataset == "help":
        return Help(languages)
    if all((Path(dataset) / f"train.{language}").exists() for language in languages):
        return Files(Path(dataset), languages)
    return Hub(dataset, languages)


class Help:
    """LibreOffice's help, split by help file; held-out pairs whose English is in training files too are left out."""

    def __init__(self, languages: tuple[str, str]) -> None:
        lines = assets.read(f"help_{'_'.join(languages)}").decode().splitlines()
        self._pairs: dict[str, list[Pair]] = {split: [] for split in SPLITS}
        rows = [line.split("\t") for line in lines]
        trained = {english for file, english, _ in rows if split_of(file) == "train"}
        for file, english, other in rows:
            split = split_of(file)
            if split == "train" or english not in trained:
                self._pairs[split].append((english, other))
        self.counts = {split: len(pairs) for split, pairs in self._pairs.items()}

    def pieces(self, split: str, first: int) -> Iterator[list[Pair]]:
        pairs = self._pairs[split]
        for start in range(first, len(pairs), PIECE):
            yield pairs[start : start + PIECE]


def split_of(file: str) -> str:
    """The split of a help file."""
    share = int.from_bytes(hashlib.sha256(file.encode()).digest()[:4]) % 100
    return "test" if share < HELD_OUT_PERCENT else "valid" if share < 2 * HELD_OUT_PERCENT else "train"


class Files:
    """A folder with `train.LANG`, `valid.LANG` and `test.LANG`, a sentence a line."""

    def __init__(self, folder: Path, languages: tuple[str, str]) -> None:
        self._paths = {split: [folder / f"{split}.{language}" for language in languages] for split in SPLITS}
        self.counts = {}
        for split, paths in self._paths.items():
            if missing := [str(path) for path in paths if not path.exists()]:
                raise ValueError(f"task.dataset={folder} lacks {' and '.join(missing)}.")
            left, right = (_count_lines(path) for path in paths)
            if left != right:
                raise ValueError(f"{paths[0]} has {left} lines but {paths[1]} has {right}: each line must be a pair.")
            self.counts[split] = left

    def pieces(self, split: str, first: int) -> Iterator[list[Pair]]:
        left, right = self._paths[split]
        with left.open("rb") as source, right.open("rb") as target:
            lines = islice(zip(source, target, strict=True), first, None)
            while piece := [(_text(a), _text(b)) for a, b in islice(lines, PIECE)]:
                yield piece


class Hub:
    """A data set as `wmt14` is: configuration de-en, splits train, validation and test, a column `translation`."""

    def __init__(self, dataset: str, languages: tuple[str, str]) -> None:
        import datasets  # takes a second to import; the embedded text doesn't need it

        datasets.disable_progress_bars()
        self._languages = languages
        configuration = f"{languages[1]}-{languages[0]}"
        try:
            found = datasets.load_dataset(dataset, configuration)
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"task.dataset={dataset} can't be read ({error}). Give a name on the Hugging Face hub that this "
                f"machine can reach and that has a configuration {configuration}, or a folder with train, valid and "
                f"test files ending in .{languages[0]} and .{languages[1]}."
            ) from error
        self._splits: dict[str, Any] = {}
        for split, name in HUB_NAMES.items():
            row = found[name][0] if name in found and len(found[name]) else {}
            if not set(languages) <= set(row.get("translation") or ()):
                raise ValueError(
                    f"task.dataset={dataset} has no pairs {languages[0]}-{languages[1]} in a column `translation` of "
                    f"its split {name}; its splits are {', '.join(found)}."
                )
            self._splits[split] = found[name]
        self.counts = {split: len(rows) for split, rows in self._splits.items()}

    def pieces(self, split: str, first: int) -> Iterator[list[Pair]]:
        rows, (source, target) = self._splits[split], self._languages
        for start in range(first, len(rows), PIECE):
            yield [(pair[source], pair[target]) for pair in rows[start : start + PIECE]["translation"]]


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _text(line: bytes) -> str | None:
    try:
        return line.decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        return None
