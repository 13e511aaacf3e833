"""Settings of the GPT-2 task. The values stand in `conf/`; none has a default here."""

from dataclasses import dataclass
from typing import Literal

UINT16_VALUES = 65_536  # token files hold 16-bit ids
GPT2_TOKENS = 50_257  # GPT-2's BPE with its end-of-text
SMALLEST_BPE = 257  # every byte, and end-of-text


@dataclass(frozen=True)
class Settings:
    """Text, tokens, batches and the model."""

    name: Literal["gpt2"]

    dataset: str  # `sotu` (embedded), a name on the Hugging Face hub, or a local folder of .parquet or .jsonl files
    tokenizer: Literal["sotu", "gpt2"]  # a BPE of `vocabulary` entries trained on sotu's training documents; GPT-2's
    data_dir: str  # prepared token files lie here
    validation_fraction: float  # of the documents
    split_seed: int  # which documents are held out
    validation_tokens: int | None  # at most so many, in windows spread evenly; null: all
    validation_batch: int  # sequences in a validation batch

    global_batch: int  # sequences a step over all workers
    sharding: Literal["iid", "by_document"]  # workers share one shuffled stream, or each has its own run of documents

    vocabulary: int  # rows of the embedding; may be padded beyond the tokenizer's entries if `tokenizer` is gpt2
    context: int  # tokens in a sequence
    layers: int
    heads: int
    width: int
    bias: bool  # in linear layers and layer norms
    dropout: float

    def __post_init__(self) -> None:
        for key in ("validation_batch", "global_batch", "context", "layers", "heads", "width"):
            if getattr(self, key) < 1:
                raise ValueError(f"task.{key}={getattr(self, key)} must be at least 1.")
        if self.width % self.heads:
            raise ValueError(f"task.width={self.width} must be a multiple of task.heads={self.heads}.")
        smallest = GPT2_TOKENS if self.tokenizer == "gpt2" else SMALLEST_BPE
        if not smallest <= self.vocabulary <= UINT16_VALUES:
            raise ValueError(
                f"task.vocabulary={self.vocabulary} does not fit task.tokenizer={self.tokenizer}: "
                f"give a value from {smallest} to {UINT16_VALUES}."
            )
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"task.validation_fraction={self.validation_fraction} must lie between 0 and 1.")
        if self.validation_tokens is not None and self.validation_tokens < self.context:
            raise ValueError(
                f"task.validation_tokens={self.validation_tokens} is less than one window of "
                f"task.context={self.context} tokens: give at least that, or null for the whole validation set."
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"task.dropout={self.dropout} must be at least 0 and less than 1.")
