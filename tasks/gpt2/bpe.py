"""Byte-level BPE: GPT-2's own, and small ones trained here on the embedded text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tasks import assets


@dataclass(frozen=True)
class Bpe:
    """A tokenizer and the id that ends a document. `end_of_text` in the text itself is encoded as ordinary bytes."""

    tokenizer: Tokenizer
    end_of_text: int

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Token ids of each text with end-of-text appended, uint16."""
        # encode_batch_fast computes no offsets; one text at a time, as the parallelism is over processes
        ids = (self.tokenizer.encode_batch_fast([text])[0].ids for text in texts)
        return [np.array([*document, self.end_of_text], dtype=np.uint16) for document in ids]


def train_bpe(texts: Iterable[str], vocabulary: int) -> Bpe:
    """A BPE of exactly `vocabulary` entries, the last of which is end-of-text; ValueError if the text is too short."""
    tokenizer = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    entries = tokenizer.get_vocab_size()
    if entries != vocabulary - 1:
        raise ValueError(f"The text yields a BPE of {entries + 1} entries, not of {vocabulary}: lower task.vocabulary.")
    return Bpe(tokenizer, end_of_text=entries)


def gpt2_bpe() -> Bpe:
    """GPT-2's BPE: 50,257 entries, end-of-text is 50,256."""
    text = assets.read("gpt2_bpe").decode()
    vocabulary = gpt2_vocabulary(text)
    return Bpe(_byte_level(models.BPE(vocab=vocabulary, merges=_merges(text))), vocabulary["<|endoftext|>"])


def gpt2_vocabulary(vocab_bpe: str) -> dict[str, int]:
    """GPT-2's `encoder.json` from `vocab.bpe`: the bytes, printable ones first, the merges, end-of-text."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    bytes_as_text = [chr(byte) for byte in printable] + [chr(0x100 + i) for i in range(len(others))]
    entries = [*bytes_as_text, *(left + right for left, right in _merges(vocab_bpe)), "<|endoftext|>"]
    return {entry: index for index, entry in enumerate(entries)}


def _merges(vocab_bpe: str) -> list[tuple[str, str]]:
    pairs = (line.split() for line in vocab_bpe.splitlines()[1:])  # the first line is a version
    return [(left, right) for left, right in pairs]


def _byte_level(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer
