"""fairseq's own TransformerModel and SequenceGenerator (extra `fairseq`), and weights to and from them."""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from hydra.core.config_store import ConfigStore
from torch import Tensor, nn

from tasks.wmt14.beam import Candidate
from tasks.wmt14.binarised import PAD, SPECIAL, Dictionary
from tasks.wmt14.settings import Settings

TIED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")
#: neither trained nor the same in both
UNTRAINED = ("version", "embed_positions._float_tensor", "embed_positions.weight", "final_logits_bias")


@contextmanager
def _own_hydra_store() -> Iterator[None]:
    """Importing fairseq stores schemas with Hydra under names of conf/ (config, optimizer, task): they are dropped."""
    store = ConfigStore.instance()
    kept = deepcopy(store.repo)
    try:
        yield
    finally:
        store.repo = kept


class FairseqTransformer(nn.Module):
    """fairseq's Transformer as a `tasks.wmt14.model.Translator`; ValueError if fairseq isn't installed."""

    def __init__(self, settings: Settings, dictionary: Dictionary) -> None:
        super().__init__()
        try:
            with _own_hydra_store():
                from fairseq.data import Dictionary as FairseqDictionary
                from fairseq.models.transformer import TransformerModel, base_architecture
        except ImportError as error:
            raise ValueError(
                f"task.model=fairseq_transformer needs the extra `fairseq`: make setup-fairseq ({error})"
            ) from error
        symbols = FairseqDictionary()
        for symbol, count in list(zip(dictionary.symbols, dictionary.counts, strict=True))[len(SPECIAL) :]:
            symbols.add_symbol(symbol, count)
        options = Namespace(
            share_all_embeddings=True,
            max_source_positions=settings.positions,
            max_target_positions=settings.positions,
            dropout=settings.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
        )
        for part in ("encoder", "decoder"):
            setattr(options, f"{part}_layers", settings.layers)
            setattr(options, f"{part}_attention_heads", settings.heads)
            setattr(options, f"{part}_embed_dim", settings.width)
            setattr(options, f"{part}_ffn_embed_dim", settings.feed_forward)
        base_architecture(options)
        self.transformer = TransformerModel.build_model(options, _Dictionaries(symbols, symbols))
        self._symbols = symbols

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        """Logits [n, T, vocabulary]."""
        return self.transformer(source, (source != PAD).sum(1), previous)[0]

    def translate(self, source: Tensor, beam: int, alpha: float, extra: int) -> list[Candidate]:
        """Sentences of one length at a time: fairseq derives the limit of all from the longest of a batch."""
        from fairseq.sequence_generator import SequenceGenerator

        generator = SequenceGenerator(
            [self.transformer],
            self._symbols,
            beam_size=beam,
            max_len_a=1,
            max_len_b=extra - 1,
            len_penalty=_Penalty(alpha),
        )
        lengths = (source != PAD).sum(1)
        found: dict[int, Candidate] = {}
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero().flatten()
            batch = {"src_tokens": source[rows, :length], "src_lengths": lengths[rows]}
            for row, candidates in zip(
                rows.tolist(), generator.generate([self.transformer], {"net_input": batch}), strict=True
            ):
                found[row] = Candidate(candidates[0]["tokens"][:-1].tolist(), float(candidates[0]["score"]))
        return [found[row] for row in range(len(source))]


@dataclass(frozen=True)
class _Dictionaries:
    """What fairseq's models ask of a fairseq task."""

    source_dictionary: Any
    target_dictionary: Any


@dataclass(frozen=True)
class _Penalty:
    """fairseq divides by length ** penalty; this one makes it ((5 + length) / 6) ** alpha."""

    alpha: float

    def __rpow__(self, length: int) -> float:
        return ((5 + length) / 6) ** self.alpha


def to_fairseq(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state_dict of fairseq's TransformerModel from one of `tasks.wmt14.model.MarianTransformer`'s Marian model."""
    kept = {name.removeprefix("model."): tensor for name, tensor in weights.items() if not name.endswith(UNTRAINED)}
    embedding = kept.pop("shared.weight")
    layers = {name: tensor for name, tensor in kept.items() if ".layers." in name}
    version = {f"{part}.version": torch.tensor([3.0]) for part in ("encoder", "decoder")}
    return {**layers, **dict.fromkeys(TIED, embedding), **version}


def from_fairseq(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The reverse, without Marian's positions, which are not trained; ValueError if it is another architecture."""
    embedding = weights[TIED[0]]
    if any(name in weights and not torch.equal(weights[name], embedding) for name in TIED):
        raise ValueError(
            "The embeddings of this fairseq model are not tied (--share-all-embeddings), so they don't fit."
        )
    layers = {f"model.{name}": tensor for name, tensor in weights.items() if ".layers." in name}
    if unknown := [n for n in weights if ".layers." not in n and n not in TIED and not n.endswith(UNTRAINED)]:
        raise ValueError(f"This fairseq model has {unknown[0]}, which the Transformer of Vaswani et al. has not.")
    names = ("model.shared.weight", *(f"model.{name}" for name in TIED[:2]), "lm_head.weight")
    return {**layers, **dict.fromkeys(names, embedding)}
