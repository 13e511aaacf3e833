"""fairseq's binarised parallel text, read and written without fairseq: dict.LANG.txt, SPLIT.SRC-TGT.LANG.bin and .idx.

The .idx file: magic, version (uint64), code of the token type (uint8), number of sentences (uint64), their lengths
(int32), the byte offset of each in the .bin file (int64); all little-endian. A sentence ends with end-of-sentence.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BOS, PAD, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # not listed in the dictionary file
MAGIC = b"MMIDIDX\x00\x00"
HEADER = struct.Struct("<9sQBQ")
TYPES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.float32, 7: np.float64, 8: np.uint16,
         9: np.uint32, 10: np.uint64}  # fmt: skip
SMALL_VOCABULARY = 65_500  # fairseq stores ids below it in 16 bits


@dataclass(frozen=True)
class Dictionary:
    """Symbols by id, the four special ones first, and how often each was counted."""

    symbols: list[str]
    counts: list[int]

    def __len__(self) -> int:
        return len(self.symbols)

    def save(self, path: Path) -> None:
        lines = (f"{symbol} {count}\n" for symbol, count in zip(self.symbols, self.counts, strict=True))
        path.write_text("".join(list(lines)[len(SPECIAL) :]), encoding="utf-8", newline="\n")


def dictionary(entries: Iterable[tuple[str, int]]) -> Dictionary:
    """A dictionary of (symbol, count) pairs behind the special symbols; ValueError if a symbol comes twice."""
    symbols, counts = list(SPECIAL), [1] * len(SPECIAL)
    for symbol, count in entries:
        symbols.append(symbol)
        counts.append(count)
    if len(set(symbols)) != len(symbols):
        twice = next(symbol for symbol in symbols if symbols.count(symbol) > 1)
        raise ValueError(f"The symbol {twice!r} stands in the dictionary twice.")
    return Dictionary(symbols, counts)


def read_dictionary(path: Path) -> Dictionary:
    """A fairseq dictionary; ValueError names the file and line if it is none."""
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not valid UTF-8 ({error}): is it a fairseq dictionary?") from None
    entries = []
    for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, 1):
        symbol, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not symbol or not count.isdigit():
            raise ValueError(f"{path}, line {number}: {line!r} is not `symbol count`. Give a fairseq dictionary.")
        entries.append((symbol, int(count)))
    try:
        return dictionary(entries)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@dataclass(frozen=True)
class Sentences:
    """All sentences of one language, mapped from disk."""

    tokens: np.ndarray  # one-dimensional
    lengths: np.ndarray  # int32, with end-of-sentence
    offsets: np.ndarray  # int64, in bytes

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        start = int(self.offsets[index]) // self.tokens.itemsize
        return self.tokens[start : start + int(self.lengths[index])]


def read_sentences(prefix: Path) -> Sentences:
    """`prefix`.bin and `prefix`.idx; ValueError if they are missing, of another format, or do not fit together."""
    index, data = (prefix.with_name(f"{prefix.name}.{ending}") for ending in ("idx", "bin"))
    for path in (index, data):
        if not path.exists():
            raise ValueError(f"{path} is missing.")
    with index.open("rb") as file:
        head = file.read(HEADER.size)
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        raise ValueError(
            f"{index} is not in fairseq's mmap format: binarise with fairseq-preprocess --dataset-impl mmap."
        )
    _, version, code, count = HEADER.unpack(head)
    if version != 1 or code not in TYPES:
        raise ValueError(f"{index} has version {version} and token type {code}; version 1 and types 1-10 are known.")
    if index.stat().st_size != HEADER.size + 12 * count:
        raise ValueError(f"{index} is damaged: its size does not fit the {count} sentences that it announces.")
    kind = np.dtype(TYPES[code])
    mapped = np.memmap(index, dtype=np.uint8, mode="r")
    lengths = mapped[HEADER.size : HEADER.size + 4 * count].view("<i4")
    offsets = mapped[HEADER.size + 4 * count :].view("<i8")
    size = data.stat().st_size
    if size % kind.itemsize or (count and int(offsets[-1]) + kind.itemsize * int(lengths[-1]) != size):
        raise ValueError(f"{data} does not fit {index}: one of them is damaged or of another data set.")
    tokens = np.memmap(data, dtype=kind, mode="r") if size else np.empty(0, kind)
    return Sentences(tokens, lengths, offsets)


def token_type(vocabulary: int) -> np.dtype:
    """The type in which fairseq stores the ids of a dictionary."""
    return np.dtype(np.uint16 if vocabulary < SMALL_VOCABULARY else np.int32)


def write_index(path: Path, lengths: np.ndarray, kind: np.dtype) -> None:
    """The .idx file of sentences that lie one behind the other in tokens of type `kind`."""
    code = next(code for code, known in TYPES.items() if known == kind)
    ends = np.cumsum(lengths, dtype=np.int64) * kind.itemsize
    offsets = np.concatenate([[0], ends[:-1]]) if len(lengths) else ends
    with path.open("wb") as file:
        file.write(HEADER.pack(MAGIC, 1, code, len(lengths)))
        file.write(np.asarray(lengths, "<i4").tobytes())
        file.write(offsets.astype("<i8").tobytes())


def write_sentences(prefix: Path, sentences: Sequence[np.ndarray], vocabulary: int) -> None:
    """`prefix`.bin and `prefix`.idx from id arrays that end with end-of-sentence."""
    kind = token_type(vocabulary)
    with prefix.with_name(f"{prefix.name}.bin").open("wb") as file:
        for ids in sentences:
            file.write(np.asarray(ids, kind).tobytes())
    write_index(prefix.with_name(f"{prefix.name}.idx"), np.array([len(ids) for ids in sentences], np.int32), kind)
