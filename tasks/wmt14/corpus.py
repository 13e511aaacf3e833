"""The token files of a configuration: what `prepare` wrote, or a folder that fairseq binarised."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.wmt14.binarised import EOS, Dictionary, Sentences, read_dictionary, read_sentences
from tasks.wmt14.files import prepared_folder, read_manifest
from tasks.wmt14.settings import Settings
from tasks.wmt14.source import SPLITS


@dataclass(frozen=True)
class Parallel:
    """The sentence pairs of a split."""

    source: Sentences
    target: Sentences

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Corpus:
    """Token ids of all splits, their dictionary, and the test's raw target sentences if there are any."""

    train: Parallel
    valid: Parallel
    test: Parallel
    dictionary: Dictionary
    references: list[str] | None


def load_corpus(settings: Settings) -> Corpus:
    """The token files of `settings`; ValueError says what is wrong with them or which command prepares them."""
    source, target = settings.languages
    folder = Path(settings.dataset)
    if not (folder / f"dict.{source}.txt").exists():
        folder = prepared_folder(settings)
        manifest = read_manifest(folder)
        if manifest is None or manifest["phase"] != "complete":
            state = "are not prepared" if manifest is None else "are prepared only in part"
            raise ValueError(
                f"The token files of task.dataset={settings.dataset} {state} (looked for {folder}). Prepare them with: "
                f"python -m scripts.prepare task={settings.name} (with the same scale and task overrides as this run)"
            )
    dictionary = _joint_dictionary(folder, settings)
    splits = {split: _read_split(folder, split, settings.languages) for split in SPLITS}
    references = folder / f"test.{target}"
    lines = references.read_text(encoding="utf-8").split("\n")[:-1] if references.exists() else None
    if lines is not None and len(lines) != len(splits["test"]):
        raise ValueError(f"{references} has {len(lines)} lines, but there are {len(splits['test'])} test pairs.")
    return Corpus(**splits, dictionary=dictionary, references=lines)


def _joint_dictionary(folder: Path, settings: Settings) -> Dictionary:
    paths = [folder / f"dict.{language}.txt" for language in settings.languages]
    ours, theirs = (read_dictionary(path) for path in paths)
    if ours.symbols != theirs.symbols:
        raise ValueError(
            f"{paths[0]} and {paths[1]} differ. The embeddings of both languages are tied: binarise with one "
            "dictionary (fairseq-preprocess --joined-dictionary)."
        )
    if len(ours) != settings.vocabulary:
        raise ValueError(f"{paths[0]} has {len(ours)} entries with the special ones: give task.vocabulary={len(ours)}.")
    return ours


def _read_split(folder: Path, split: str, languages: tuple[str, str]) -> Parallel:
    forward, backward = (f"{split}.{'-'.join(pair)}" for pair in (languages, languages[::-1]))
    name = backward if (folder / f"{backward}.{languages[0]}.idx").exists() else forward
    left, right = (read_sentences(folder / f"{name}.{language}") for language in languages)
    if len(left) != len(right):
        raise ValueError(
            f"{folder / name}.{languages[0]}.idx has {len(left)} sentences but .{languages[1]}.idx has {len(right)}."
        )
    if not len(left):
        raise ValueError(f"{folder / name}.{languages[0]}.idx holds no sentence.")
    return Parallel(left, right)


def spread(size: int, most: int | None) -> np.ndarray:
    """At most `most` indices below `size`, spread evenly, in order."""
    return np.arange(size) if most is None or most >= size else np.arange(most) * size // most


def cut(ids: np.ndarray, longest: int) -> np.ndarray:
    """At most `longest` tokens, the last of which is end-of-sentence."""
    return ids if len(ids) <= longest else np.append(ids[: longest - 1], ids.dtype.type(EOS))
