"""BLEU and METEOR of translated sentences."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from tasks.wmt14.wordnet import open_wordnet


def bleu(translations: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Corpus BLEU in percent (13a tokenisation, case kept, exponential smoothing) and sacreBLEU's signature of it."""
    metric = BLEU(force=True)  # tokenised text is scored too, and not by mistake
    score = metric.corpus_score(list(translations), [list(references)]).score
    return float(score), str(metric.get_signature())


def meteor(translations: Sequence[str], references: Sequence[str]) -> float:
    """Mean METEOR (0 to 1) over sentences, by nltk with WordNet 3.0 on 13a tokens; ValueError if WordNet is not there.

    Stems and synonyms are English whatever the language is, as in the published values.
    """
    from nltk.translate.meteor_score import single_meteor_score

    wordnet = open_wordnet()
    scores = [
        single_meteor_score(_tokens(reference), _tokens(translation), wordnet=wordnet)
        for translation, reference in zip(translations, references, strict=True)
    ]
    return sum(scores) / len(scores)


def _tokens(text: str) -> list[str]:
    return _tokenizer()(text).split()


@lru_cache
def _tokenizer() -> Any:
    return Tokenizer13a()
