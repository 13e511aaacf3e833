"""Settings of the translation tasks. The values stand in `conf/`; none has a default here."""

from dataclasses import dataclass
from typing import Literal

SMALLEST_VOCABULARY = 256
AT_LEAST_ONE = (
    "validation_batch_tokens", "decode_batch", "batch_tokens", "max_length", "positions", "layers", "heads", "width",
    "feed_forward", "beam", "extra_length",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Parallel text, tokens, batches, the Transformer and how it translates."""

    name: Literal["wmt14_en_de", "wmt14_en_fr"]

    # `help` (embedded), a name on the Hugging Face hub, a folder of parallel files, or one that fairseq binarised
    dataset: str
    data_dir: str  # prepared token files lie here
    vocabulary: int  # entries of the joint BPE dictionary with its four special symbols
    validation_every: (
        int | None
    )  # every so many training pairs one is held out; null: the data set's own validation set
    validation_pairs: int | None  # at most so many, spread evenly; null: all
    test_pairs: int | None  # translated at the end: at most so many, spread evenly; null: all

    batch_tokens: int  # tokens a step over all workers, source and target each, padding included
    max_length: int  # training sentences are cut at so many tokens
    validation_batch_tokens: int  # as batch_tokens
    decode_batch: int  # sentences translated at once
    decode_every_evaluation: bool  # translate the test set at every evaluation, not only when training has ended

    model: Literal["marian", "fairseq_transformer"]
    layers: int  # of the encoder, and of the decoder
    heads: int
    width: int
    feed_forward: int
    positions: int  # the longest sentence that the model can read or write, in tokens
    dropout: float
    label_smoothing: float

    beam: int  # 1: greedy
    length_penalty: float  # alpha in ((5 + length) / 6)^alpha
    extra_length: int  # a translation has at most so many tokens more than its source
    meteor: bool  # needs WordNet: python -m scripts.prepare wordnet

    @property
    def languages(self) -> tuple[str, str]:
        """(source, target)"""
        return "en", self.name[-2:]

    def __post_init__(self) -> None:
        for key in AT_LEAST_ONE:
            if getattr(self, key) < 1:
                raise ValueError(f"task.{key}={getattr(self, key)} must be at least 1.")
        for key in ("validation_every", "validation_pairs", "test_pairs"):
            if (value := getattr(self, key)) is not None and value < (2 if key == "validation_every" else 1):
                raise ValueError(f"task.{key}={value} is too small; null leaves it out.")
        if self.vocabulary < SMALLEST_VOCABULARY:
            raise ValueError(f"task.vocabulary={self.vocabulary} must be at least {SMALLEST_VOCABULARY}.")
        if self.width % (2 * self.heads):
            raise ValueError(f"task.width={self.width} must be a multiple of 2 x task.heads={self.heads}.")
        if self.max_length > self.positions:
            raise ValueError(f"task.max_length={self.max_length} exceeds task.positions={self.positions}.")
        for key in ("dropout", "label_smoothing"):
            if not 0 <= getattr(self, key) < 1:
                raise ValueError(f"task.{key}={getattr(self, key)} must be at least 0 and less than 1.")
        if self.length_penalty < 0:
            raise ValueError(f"task.length_penalty={self.length_penalty} must be at least 0.")
