"""Beam search against exhaustive search and against a slow one without batches and caches."""

import copy
import math
from itertools import product

import pytest
import torch

from tasks.wmt14.beam import Candidate
from tasks.wmt14.binarised import BOS, EOS, PAD
from tasks.wmt14.model import MarianTransformer
from tests.support import wmt14

ALPHA = 0.6


def penalty(length: int) -> float:
    return ((5 + length) / 6) ** ALPHA


@torch.no_grad()
def log_probabilities(model, source: list[int], ids: list[int]) -> list[float]:
    previous = torch.tensor([[EOS, *ids]])
    return model(torch.tensor([source]), previous)[0, -1].log_softmax(-1).tolist()


def slow_beam_search(model, source: list[int], beam: int, extra: int) -> Candidate:
    """The definition, for one sentence, the whole target computed anew for each token."""
    limit = len(source) - 1 + extra
    alive, done = [([], 0.0)], []
    while alive and len(done) < beam:
        grown = []
        for ids, score in alive:
            following = log_probabilities(model, source, ids)
            for symbol, value in enumerate(following):
                at_limit, first = len(ids) == limit, not ids
                if symbol in (BOS, PAD) or (symbol == EOS and first) or (symbol != EOS and at_limit):
                    continue
                grown.append(([*ids, symbol], score + value))
        grown.sort(key=lambda hypothesis: -hypothesis[1])
        best = grown[: 2 * beam]
        for ids, score in best[:beam]:
            if ids[-1] == EOS and len(done) < beam:
                done.append(Candidate(ids[:-1], score / penalty(len(ids))))
        alive = [hypothesis for hypothesis in best if hypothesis[0][-1] != EOS][:beam]
    return max(done, key=lambda candidate: candidate.score)


def sources_of(task, count: int) -> list[list[int]]:
    return [
        row[row != PAD].tolist() for batch in task.final_batches() if "sentence" in batch for row in batch["source"]
    ][:count]


def padded(sources: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, sources))
    return torch.tensor([source + [PAD] * (longest - len(source)) for source in sources])


@torch.no_grad()
def test_model_without_numbers_translates_into_nothing():
    """A run that has diverged is called that, and does not end as a mistake of the user's."""
    task, model = wmt14.trained()
    lost = copy.deepcopy(model)
    next(lost.parameters()).fill_(math.nan)
    found = lost.translate(padded(sources_of(task, 2)), 4, ALPHA, extra=4)
    assert [(candidate.ids, candidate.score) for candidate in found] == [([], -math.inf)] * 2


@pytest.mark.parametrize("beam", [1, 4])
@torch.no_grad()
def test_beam_search_is_the_slow_search_whatever_else_is_in_the_batch(beam):
    task, model = wmt14.trained()
    sources = sources_of(task, 6)
    expected = [slow_beam_search(model, source, beam, extra=4) for source in sources]
    together = model.translate(padded(sources), beam, ALPHA, extra=4)
    alone = [model.translate(padded([source]), beam, ALPHA, extra=4)[0] for source in sources]
    for found in (together, alone):
        assert [candidate.ids for candidate in found] == [candidate.ids for candidate in expected]
        assert [c.score for c in found] == pytest.approx([c.score for c in expected], abs=1e-4)
    assert len({tuple(candidate.ids) for candidate in expected}) >= 4


@torch.no_grad()
def test_beam_search_finds_more_likely_translations_than_greedy_search():
    task, model = wmt14.trained()
    source = padded(sources_of(task, 24))
    greedy, beam = (model.translate(source, width, ALPHA, 8) for width in (1, 4))
    better = sum(b.score > g.score + 1e-4 for g, b in zip(greedy, beam, strict=True))
    worse = sum(b.score < g.score - 1e-4 for g, b in zip(greedy, beam, strict=True))
    assert better > 3 * worse


@torch.no_grad()
def test_beam_search_as_wide_as_the_space_is_exhaustive():
    torch.manual_seed(1)
    settings = wmt14.plain_settings(vocabulary=256, dropout=0.0, layers=1)
    model = MarianTransformer(settings).eval()
    kept = [EOS, 3, 4, 5]  # three words and the end: the embedding of all others is unlikely
    model.transformer.lm_head.weight.mul_(3)
    real = model.forward
    mask = torch.full((256,), -1e9)
    mask[kept] = 0
    head = model.transformer.lm_head
    head.register_forward_hook(lambda module, inputs, output: output + mask)
    source = [4, 5, EOS]
    best, score = None, -math.inf
    for length in range(1, 4):  # at most two tokens of the source and one more
        for ids in product(kept[1:], repeat=length):
            logits = real(torch.tensor([source]), torch.tensor([[EOS, *ids]]))[0].log_softmax(-1)
            total = sum(float(logits[i, symbol]) for i, symbol in enumerate([*ids, EOS]))
            if total / penalty(length + 1) > score:
                best, score = list(ids), total / penalty(length + 1)
    (found,) = model.translate(torch.tensor([source]), 60, ALPHA, extra=1)
    assert found.ids == best
    assert found.score == pytest.approx(score, abs=1e-5)


@torch.no_grad()
def test_beam_search_stops_at_source_length_and_extra_tokens():
    torch.manual_seed(0)
    model = MarianTransformer(wmt14.plain_settings(vocabulary=256)).eval()
    model.transformer.lm_head.register_forward_hook(lambda m, i, output: output - 50 * (torch.arange(256) == EOS))
    found = model.translate(padded([[9, 8, 7, EOS], [9, EOS]]), 4, ALPHA, extra=3)
    assert [len(candidate.ids) for candidate in found] == [6, 4]
