"""Moses' rules: punctuation normalised, non-printing characters removed, tokenised; and back to ordinary text."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

#: a language's aggressive dash splitting writes `@-@`; a piece of BPE ends with `@@`, which must not stand in the text
CONTINUED = "@@"
SPACES = re.compile(r"\s+")


@lru_cache
def _tools(language: str) -> tuple[MosesPunctNormalizer, MosesTokenizer, MosesDetokenizer]:
    return MosesPunctNormalizer(language), MosesTokenizer(language), MosesDetokenizer(language)


@lru_cache(maxsize=1 << 16)
def _printable(character: str) -> str:
    """Moses' remove-non-printing-char: control and other non-characters become a space."""
    return " " if unicodedata.category(character).startswith("C") else character


def clean(text: str, language: str) -> str:
    """Tokens separated by one space; empty if nothing printable is left."""
    normaliser, tokenizer, _ = _tools(language)
    text = normaliser.normalize(text)
    if not text.isprintable():
        text = "".join(map(_printable, text))
    text = SPACES.sub(" ", tokenizer.tokenize(text, aggressive_dash_splits=True, return_str=True, escape=False))
    return text.strip().replace(CONTINUED, "@ @")


def detokenise(tokens: str, language: str) -> str:
    """Ordinary text of tokens separated by spaces."""
    return _tools(language)[2].detokenize(tokens.split())


def join_pieces(pieces: Sequence[str]) -> str:
    """Tokens separated by spaces from BPE pieces in subword-nmt's form, where `@@` ends a piece that goes on."""
    return f"{' '.join(pieces)} ".replace(f"{CONTINUED} ", "").strip()
