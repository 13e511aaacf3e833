"""Translation as the trainer sees it."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decent_core.training.task import Batch, Task
from tasks.wmt14.batches import TokenBatches
from tasks.wmt14.binarised import EOS, PAD
from tasks.wmt14.clean import detokenise, join_pieces
from tasks.wmt14.corpus import Parallel, cut, load_corpus, spread
from tasks.wmt14.metrics import bleu, meteor
from tasks.wmt14.model import Translator, build_translator
from tasks.wmt14.preparation import prepare
from tasks.wmt14.settings import Settings
from tasks.wmt14.wordnet import open_wordnet

SAMPLES = 5  # translations shown beside their references
EFFICIENCY_STEPS = 100  # over which padding is counted


class TranslationTask(Task):
    """Pairs in batches of tokens, label-smoothed cross-entropy, BLEU and METEOR of beam search on the test set."""

    primary_metric = "val_loss"
    lower_is_better = True

    def __init__(self, settings: Settings, seed: int, world_size: int) -> None:
        if settings.meteor:
            open_wordnet()  # missing, it stops the run here and not at its end
        self.settings, self.world_size = settings, world_size
        self.name: str = settings.name
        if settings.dataset == "help":
            prepare(settings, progress=lambda done, total: None, processes=1)  # embedded: half a minute, only once
        self._corpus = load_corpus(settings)
        train = self._corpus.train
        lengths = np.maximum(train.source.lengths, train.target.lengths)
        self._batches = TokenBatches(np.minimum(lengths, settings.max_length), settings.batch_tokens, world_size, seed)
        self._test = spread(len(self._corpus.test), settings.test_pairs)
        self._check_positions()
        #: pairs differ from step to step; this is their mean over an epoch
        self.samples_per_step = round(len(train) / self._batches.per_epoch)
        self.steps_per_epoch = self._batches.per_epoch
        #: what a record says about this task beside numbers
        self.notes = {"data": self._describe_data(int((lengths > settings.max_length).sum()))}

    def build_model(self) -> nn.Module:
        return build_translator(self.settings, self._corpus.dictionary)

    def batch(self, step: int, worker: int) -> Batch:
        return self._collate(self._corpus.train, self._batches.indices(step, worker), self.settings.max_length)

    def micro_batches(self, batch: Batch, count: int) -> Sequence[Batch]:
        """Each has the batch's pairs at equal distances; there are fewer if the batch has fewer than `count` pairs."""
        parts = min(count, len(batch["source"]))
        return [{side: _trim(ids[part::parts]) for side, ids in batch.items()} for part in range(parts)]

    def weight(self, batch: Batch) -> float:
        return float((batch["target"] != PAD).sum())

    def loss_sum(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy with smoothed labels, summed over target tokens."""
        return self._cross_entropy(model, batch, self.settings.label_smoothing)[0]

    def _cross_entropy(self, model: nn.Module, batch: Batch, *smoothing: float) -> list[Tensor]:
        target = batch["target"]
        previous = torch.cat([torch.full_like(target[:, :1], EOS), target[:, :-1]], 1)
        logits = model(batch["source"], previous).flatten(0, 1)
        return [
            F.cross_entropy(logits, target.flatten(), ignore_index=PAD, label_smoothing=value, reduction="sum")
            for value in smoothing
        ]

    def validation_batches(self) -> Sequence[Batch]:
        return self.final_batches() if self.settings.decode_every_evaluation else self._loss_batches

    def final_batches(self) -> Sequence[Batch]:
        """What is evaluated when training has ended: the validation set, and the test set to be translated."""
        return [*self._loss_batches, *self._decode_batches]

    @cached_property
    def _loss_batches(self) -> list[Batch]:
        valid = self._corpus.valid
        chosen = spread(len(valid), self.settings.validation_pairs)
        lengths = np.maximum(valid.source.lengths, valid.target.lengths)[chosen]
        order = chosen[np.argsort(-lengths, kind="stable")]
        batches, start = [], 0
        while start < len(order):
            longest = max(valid.source.lengths[order[start]], valid.target.lengths[order[start]])
            pairs = order[start : start + max(1, self.settings.validation_batch_tokens // int(longest))]
            batches.append(self._collate(valid, pairs))
            start += len(pairs)
        return batches

    @cached_property
    def _decode_batches(self) -> list[Batch]:
        """The test sources, longest first, and which sentences they are."""
        test = self._corpus.test
        order = self._test[np.argsort(-test.source.lengths[self._test], kind="stable")]
        pieces = np.array_split(order, math.ceil(len(order) / self.settings.decode_batch))
        return [
            {"source": self._collate(test, piece)["source"], "sentence": torch.from_numpy(piece)} for piece in pieces
        ]

    def evaluate(self, model: nn.Module, batch: Batch) -> Any:
        """(negative log-likelihood, training loss, tokens) of a validation batch; {sentence: ids} of a test batch."""
        if "target" in batch:
            sums = self._cross_entropy(model, batch, 0.0, self.settings.label_smoothing)
            return (*(float(value) for value in sums), self.weight(batch))
        settings = self.settings
        found = cast(Translator, model).translate(
            batch["source"], settings.beam, settings.length_penalty, settings.extra_length
        )
        return dict(zip(batch["sentence"].tolist(), (candidate.ids for candidate in found), strict=True))

    def summarise(self, parts: Sequence[Any]) -> dict[str, float]:
        """val_loss: nats a token, not smoothed; val_smoothed_loss: as trained; scores if the test was translated."""
        nll, smoothed, tokens = np.sum([part for part in parts if isinstance(part, tuple)], axis=0)
        metrics = {"val_loss": nll / tokens, "val_smoothed_loss": smoothed / tokens}
        metrics["val_perplexity"] = np.exp(metrics["val_loss"])
        translated = self._translated(parts)
        if translated:
            metrics |= self._scores(translated)
        return {name: float(value) for name, value in metrics.items()}

    def _scores(self, translated: dict[int, list[int]]) -> dict[str, float]:
        tokens = [self._tokens(ids) for ids in translated.values()]
        tokenised = [self._tokens(self._corpus.test.target[i][:-1].tolist()) for i in translated]
        texts, references = [self._text(line) for line in tokens], [self._reference(i) for i in translated]
        score, signature = bleu(texts, references)
        self.notes = {
            **self.notes,
            "bleu": f"sacreBLEU {signature}, {self._reference_note}, {len(texts)} sentences",
            "bleu_tokenised": "the same of tokenised text against tokenised references, as published by [P]",
        }
        scores = {"bleu": score, "bleu_tokenised": bleu(tokens, tokenised)[0]}
        return scores | ({"meteor": meteor(texts, references)} if self.settings.meteor else {})

    def outputs(self, parts: Sequence[Any]) -> list[dict[str, str]]:
        """A few test sentences: source, reference and translation; none if none was translated."""
        translated = self._translated(parts)
        chosen = [list(translated)[i] for i in spread(len(translated), SAMPLES)]
        source = self.settings.languages[0]
        return [
            {
                "source": detokenise(self._tokens(self._corpus.test.source[i][:-1].tolist()), source),
                "reference": self._reference(i),
                "translation": self._text(self._tokens(translated[i])),
            }
            for i in chosen
        ]

    def _translated(self, parts: Sequence[Any]) -> dict[int, list[int]]:
        """ids by test sentence, in order."""
        return dict(sorted(pair for part in parts if isinstance(part, dict) for pair in part.items()))

    def _tokens(self, ids: Sequence[int]) -> str:
        return join_pieces([self._corpus.dictionary.symbols[i] for i in ids])

    def _text(self, tokens: str) -> str:
        return detokenise(tokens, self.settings.languages[1])

    def _reference(self, sentence: int) -> str:
        if self._corpus.references is not None:
            return self._corpus.references[sentence]
        return self._text(self._tokens(self._corpus.test.target[sentence][:-1].tolist()))

    @property
    def _reference_note(self) -> str:
        return "raw references" if self._corpus.references is not None else "references detokenised from binarised data"

    def _collate(self, pairs: Parallel, indices: np.ndarray, longest: int | None = None) -> Batch:
        """source [n, S] and target [n, T], padded behind their end-of-sentence."""
        return {
            side: _pad(
                [sentences[i] if longest is None else cut(sentences[i], longest) for i in indices], self.settings
            )
            for side, sentences in (("source", pairs.source), ("target", pairs.target))
        }

    def _check_positions(self) -> None:
        most = self.settings.positions
        valid, test = self._corpus.valid, self._corpus.test
        needs = {
            "validation sentence": max(int(valid.source.lengths.max()), int(valid.target.lengths.max())),
            f"test sentence with task.extra_length={self.settings.extra_length}": self.settings.extra_length
            + int(test.source.lengths[self._test].max()),
        }
        for what, need in needs.items():
            if need > most:
                raise ValueError(f"The longest {what} needs {need} positions: task.positions={most} is too small.")

    def _describe_data(self, too_long: int) -> str:
        counts = {side: [0, 0] for side in ("source", "target")}
        for step in range(min(EFFICIENCY_STEPS, self._batches.per_epoch)):
            for worker in range(self.world_size):
                for side, ids in self.batch(step, worker).items():
                    counts[side][0] += int((ids != PAD).sum())
                    counts[side][1] += ids.numel()
        filled = ", ".join(f"{side} {100 * real / padded:.1f} %" for side, (real, padded) in counts.items())
        return (
            f"{len(self._corpus.train):,} training pairs, {too_long:,} cut at {self.settings.max_length} tokens; "
            f"{self._batches.per_epoch:,} steps an epoch; not padding: {filled}"
        )


def _pad(sentences: Sequence[np.ndarray], settings: Settings) -> Tensor:
    ids = np.full((len(sentences), max(map(len, sentences))), PAD, np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    if int(ids.max()) >= settings.vocabulary:
        raise ValueError(f"Token {ids.max()} of the data is not among the {settings.vocabulary} in its dictionary.")
    return torch.from_numpy(ids)


def _trim(ids: Tensor) -> Tensor:
    """Without columns of padding only."""
    return ids[:, : int((ids != PAD).sum(1).max())]
