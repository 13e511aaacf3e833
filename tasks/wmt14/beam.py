"""Beam search over a batch. `transformers`' generate divides by length^alpha only; the published penalty is another."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tasks.wmt14.binarised import BOS, EOS, PAD


@dataclass(frozen=True)
class Candidate:
    """A finished translation: ids without end-of-sentence, and log-probability / penalty(length with it)."""

    ids: list[int]
    score: float


class Decoding(Protocol):
    """Hypotheses in rows, `beam` a sentence; see `tasks.wmt14.model.MarianDecoding`."""

    def log_probabilities(self, last: Tensor) -> Tensor: ...
    def select(self, rows: Tensor, sentences_left: bool) -> None: ...


def beam_search(decoding: Decoding, limits: Tensor, beam: int, penalty: Callable[[int], float]) -> list[Candidate]:
    """The best candidate of each sentence; `limits` [sentences]: the most tokens it may have without end-of-sentence.

    As in fairseq's SequenceGenerator: of the 2 x beam best continuations those that end within the first `beam` become
    candidates, the first `beam` that go on stay alive; a sentence is done when it has `beam` candidates or is at its
    limit.
    Beams differ from the first step on: it continues one of the equal rows only. The empty translation is not allowed.
    """
    sentences, device = len(limits), limits.device
    found: list[list[Candidate]] = [[] for _ in range(sentences)]
    alive = torch.arange(sentences, device=device)  # the sentences that are not done
    tokens = torch.full((sentences, beam, 1), EOS, device=device)
    scores = torch.full((sentences, beam), -torch.inf, device=device)
    scores[:, 0] = 0
    for length in range(1, int(limits.max()) + 2):  # of a candidate that ends now, with end-of-sentence
        steps = decoding.log_probabilities(tokens[:, :, -1].flatten()).unflatten(0, (-1, beam))
        totals = (scores[:, :, None] + _allowed(steps, length, limits[alive])).flatten(1)
        best, places = totals.topk(2 * beam)
        parents, symbols = places // steps.shape[-1], places % steps.shape[-1]
        ends = symbols == EOS
        _collect(found, alive, tokens, (ends & (best > -torch.inf))[:, :beam], best, parents, penalty(length))
        going_on = (ends * 2 * beam + torch.arange(2 * beam, device=device)).argsort(1)[:, :beam]
        scores = best.gather(1, going_on).masked_fill(ends.gather(1, going_on), -torch.inf)
        parents, symbols = parents.gather(1, going_on), symbols.gather(1, going_on)
        tokens = torch.cat([tokens.gather(1, parents[:, :, None].expand(-1, -1, length)), symbols[:, :, None]], 2)
        left = torch.tensor(
            [len(found[i]) < beam and length <= limit for i, limit in _with_limits(alive, limits)], device=device
        )
        if not left.any():
            break
        rows = (torch.arange(len(alive), device=device)[:, None] * beam + parents)[left].flatten()
        alive, tokens, scores = alive[left], tokens[left], scores[left]
        decoding.select(rows, not bool(left.all()))
    none = Candidate([], -math.inf)  # where scores are no numbers, as in a run that has diverged
    return [max(candidates, key=lambda candidate: candidate.score, default=none) for candidates in found]


def _allowed(steps: Tensor, length: int, limits: Tensor) -> Tensor:
    """Log-probabilities [sentences, beam, vocabulary]: no padding or start, no end at first, only it at the limit."""
    steps = steps.clone()
    steps[..., [BOS, PAD]] = -torch.inf
    if length == 1:
        steps[..., EOS] = -torch.inf
    ending = steps[..., EOS].clone()
    steps.masked_fill_((length > limits)[:, None, None], -torch.inf)
    steps[..., EOS] = ending
    return steps


def _collect(
    found: list[list[Candidate]],
    alive: Tensor,
    tokens: Tensor,
    ended: Tensor,
    best: Tensor,
    parents: Tensor,
    penalty: float,
) -> None:
    beam = ended.shape[1]
    for row, place in ended.nonzero().tolist():
        candidates = found[int(alive[row])]
        if len(candidates) < beam:
            ids = tokens[row, int(parents[row, place]), 1:].tolist()
            candidates.append(Candidate(ids, float(best[row, place]) / penalty))


def _with_limits(alive: Tensor, limits: Tensor) -> list[tuple[int, int]]:
    return list(zip(alive.tolist(), limits[alive].tolist(), strict=True))
