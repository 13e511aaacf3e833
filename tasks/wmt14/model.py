"""The Transformer of Vaswani et al. 2017 from `transformers`' Marian: post-norm, ReLU, one tied embedding."""

import math
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, MarianConfig, MarianMTModel

from tasks.wmt14.beam import Candidate, beam_search
from tasks.wmt14.binarised import BOS, EOS, PAD, Dictionary
from tasks.wmt14.settings import Settings


class Translator(Protocol):
    """What the task asks of its model, whoever's layers it is made of."""

    def __call__(self, source: Tensor, previous: Tensor) -> Tensor:
        """source [n, S] and the target behind an end-of-sentence [n, T] -> logits [n, T, vocabulary]."""

    def translate(self, source: Tensor, beam: int, alpha: float, extra: int) -> list[Candidate]:
        """The best translation of each sentence of source [n, S], padded behind its end-of-sentence."""


def build_translator(settings: Settings, dictionary: Dictionary) -> nn.Module:
    """The model of `task.model`, a `Translator`, with its initial weights; ValueError if it isn't installed."""
    if settings.model == "marian":
        return MarianTransformer(settings)
    from tasks.wmt14.fairseq_model import FairseqTransformer  # an extra

    return FairseqTransformer(settings, dictionary)


class MarianTransformer(nn.Module):
    """Encoder and decoder of `layers` each; the decoder begins with end-of-sentence, as fairseq's does."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        sizes: dict[str, Any] = {}
        for part in ("encoder", "decoder"):
            sizes[f"{part}_layers"] = settings.layers
            sizes[f"{part}_attention_heads"] = settings.heads
            sizes[f"{part}_ffn_dim"] = settings.feed_forward
        config = MarianConfig(
            vocab_size=settings.vocabulary,
            d_model=settings.width,
            max_position_embeddings=settings.positions,
            activation_function="relu",
            scale_embedding=True,
            dropout=settings.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            bos_token_id=BOS,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=EOS,
            forced_eos_token_id=None,
            attn_implementation="sdpa",
            **sizes,
        )
        self.transformer = MarianMTModel(config)
        _initialise(self.transformer)

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        """Logits [n, T, vocabulary]; source and previous are padded on the right."""
        decoded = self.transformer.model(
            input_ids=source, attention_mask=source != PAD, decoder_input_ids=previous, use_cache=False
        ).last_hidden_state
        return self.transformer.lm_head(decoded)  # without Marian's logits bias, which is not trained

    def translate(self, source: Tensor, beam: int, alpha: float, extra: int) -> list[Candidate]:
        """Beam search with ((5 + length) / 6)^alpha; at most `extra` tokens more than each source."""
        limits = (source != PAD).sum(1) - 1 + extra  # without end-of-sentence
        return beam_search(
            MarianDecoding(self.transformer, source, beam), limits, beam, lambda n: ((5 + n) / 6) ** alpha
        )


class MarianDecoding:
    """A batch of hypotheses, `beam` rows a sentence, that grow by a token a step over cached keys and values."""

    def __init__(self, transformer: MarianMTModel, source: Tensor, beam: int) -> None:
        rows = source.repeat_interleave(beam, 0)
        encoded = transformer.model.encoder(input_ids=source, attention_mask=source != PAD).last_hidden_state
        self._transformer = transformer
        self._encoded = encoded.repeat_interleave(beam, 0)
        self._mask = rows != PAD
        self._cache = EncoderDecoderCache(DynamicCache(), DynamicCache())

    def log_probabilities(self, last: Tensor) -> Tensor:
        """The next token's log-probabilities [rows, vocabulary] behind `last` [rows], the newest token of each row."""
        decoded = self._transformer.model.decoder(
            input_ids=last[:, None],
            encoder_hidden_states=self._encoded,
            encoder_attention_mask=self._mask,
            cache=self._cache,
            use_cache=True,
        ).last_hidden_state
        return self._transformer.lm_head(decoded[:, -1]).float().log_softmax(-1)

    def select(self, rows: Tensor, sentences_left: bool) -> None:
        """Go on with `rows`; not sentences_left: each comes from a row of the same sentence."""
        self._cache.self_attention_cache.batch_select_indices(rows)
        if sentences_left:
            self._cache.cross_attention_cache.batch_select_indices(rows)
            self._encoded, self._mask = self._encoded[rows], self._mask[rows]


def _initialise(transformer: MarianMTModel) -> None:
    """fairseq's initial weights for the architecture, and its positions: Marian's are made for fine-tuning.

    Linear layers Xavier-uniform (queries, keys and values by 1 / sqrt(2) as if they were one matrix), biases 0,
    embeddings normal with deviation width^-1/2, the padding's 0.
    """
    width = transformer.config.d_model
    for name, module in transformer.model.named_modules():
        if isinstance(module, nn.Linear):
            joined = name.endswith(("q_proj", "k_proj", "v_proj"))
            nn.init.xavier_uniform_(module.weight, gain=1 / math.sqrt(2) if joined else 1.0)
            nn.init.zeros_(module.bias)
    nn.init.normal_(transformer.model.shared.weight, std=width**-0.5)
    with torch.no_grad():
        transformer.model.shared.weight[PAD] = 0
        for part in (transformer.model.encoder, transformer.model.decoder):
            part.embed_positions.weight.copy_(sinusoids(*part.embed_positions.weight.shape))


def sinusoids(positions: int, width: int) -> Tensor:
    """[positions, width] as fairseq has them: sines, then cosines, wavelengths 2 pi .. 20,000 pi, from position 2."""
    steps = width // 2
    frequencies = torch.exp(torch.arange(steps) * -(math.log(10_000) / (steps - 1)))
    angles = torch.arange(PAD + 1, PAD + 1 + positions)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1)
