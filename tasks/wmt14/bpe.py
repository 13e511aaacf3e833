"""Joint BPE of both languages on tokenised text, in subword-nmt's notation, so that fairseq reads and undoes it."""

from collections.abc import Iterable, Sequence
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


def learn_bpe(lines: Iterable[str], vocabulary: int) -> Bpe:
    """A BPE with `vocabulary` entries, the special symbols included; ValueError if the text is too short for it."""
    unknown = SPECIAL[UNK]
    tokenizer = Tokenizer(models.BPE(unk_token=unknown, end_of_word_suffix=WORD_END))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learnt = vocabulary - len(SPECIAL) + 1
    trainer = trainers.BpeTrainer(
        vocab_size=learnt,
        special_tokens=[unknown],
        limit_alphabet=min(ALPHABET, learnt // 4),
        end_of_word_suffix=WORD_END,
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    if tokenizer.get_vocab_size() != learnt:
        entries = tokenizer.get_vocab_size() + len(SPECIAL) - 1
        raise ValueError(
            f"The text yields a dictionary of {entries} entries, not of {vocabulary}: lower task.vocabulary."
        )
    return Bpe(tokenizer)


def _subword(piece: str) -> str:
    return piece.removesuffix(WORD_END) if piece.endswith(WORD_END) else piece + CONTINUED
