"""Joint BPE of both languages on tokenised text, in subword-nmt's notation, so that fairseq reads and undoes it."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tasks.wmt14.binarised import EOS, SPECIAL, UNK, Dictionary, dictionary
from tasks.wmt14.clean import CONTINUED

WORD_END = "</w>"
ALPHABET = 2_000  # characters that get a symbol; rarer ones are unknown


class Bpe:
    """Splits tokenised text into pieces, with the ids of a fairseq dictionary: learnt ones behind the special ones."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        entries = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
        self.symbols = [_subword(piece) for piece, _ in entries[1:]]  # the first is the unknown one

    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """The ids of each line and end-of-sentence, int32; a run of unknown characters is one unknown symbol each."""
        found = self._tokenizer.encode_batch_fast(list(lines))
        ids = [np.array([*line.ids, 0], np.int32) for line in found]
        for line in ids:
            line += np.where(line == 0, UNK, len(SPECIAL) - 1)
            line[-1] = EOS
        return ids

    def dictionary(self, counts: np.ndarray) -> Dictionary:
        """fairseq's dictionary; `counts` [entries] by id."""
        return dictionary((symbol, int(counts[len(SPECIAL) + i])) for i, symbol in enumerate(self.symbols))

    def save(self, path: Path) -> None:
        self._tokenizer.save(str(path))


def load_bpe(path: Path) -> Bpe:
    """What `Bpe.save` wrote."""
    return Bpe(Tokenizer.from_file(str(path)))


def learn_bpe(read: Callable[[], Iterable[str]], vocabulary: int) -> Bpe:
    """A BPE with `vocabulary` entries, the special symbols included; `read` gives the text's lines and is called twice.

    The same text gives the same entries: left to itself, the trainer numbers characters, and breaks ties, by the order
    of a hash table. ValueError if the text is too short for the vocabulary.
    """
    learnt = vocabulary - len(SPECIAL) + 1
    characters = _common_characters(read(), min(ALPHABET, learnt // 4))
    kept = set(characters)
    unknown = SPECIAL[UNK]
    numbered = [unknown, *characters, *(character + WORD_END for character in characters)]
    tokenizer = _tokenizer(models.BPE(unk_token=unknown, end_of_word_suffix=WORD_END))
    trainer = trainers.BpeTrainer(
        vocab_size=learnt, special_tokens=numbered, end_of_word_suffix=WORD_END, show_progress=False
    )
    lines = (" ".join(word for word in line.split() if kept.issuperset(word)) for line in read())
    tokenizer.train_from_iterator(lines, trainer)
    if tokenizer.get_vocab_size() != learnt:
        entries = tokenizer.get_vocab_size() + len(SPECIAL) - 1
        raise ValueError(
            f"The text yields a dictionary of {entries} entries, not of {vocabulary}: lower task.vocabulary."
        )
    merges = [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    vocabulary_ids = tokenizer.get_vocab()  # a new tokenizer, in which no character is special
    model = models.BPE(vocab=vocabulary_ids, merges=merges, unk_token=unknown, end_of_word_suffix=WORD_END)
    return Bpe(_tokenizer(model))


def _common_characters(lines: Iterable[str], most: int) -> list[str]:
    """The characters of words, the commonest ones, in a fixed order."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    words = [(-count, character) for character, count in counts.items() if not character.isspace()]
    return sorted(character for _, character in sorted(words)[:most])


def _tokenizer(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def _subword(piece: str) -> str:
    return piece.removesuffix(WORD_END) if piece.endswith(WORD_END) else piece + CONTINUED
