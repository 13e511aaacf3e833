"""Batches of tokens: budget, coverage, reproducibility, independence of the number of workers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.wmt14.batches import TokenBatches
from tests.support import wmt14


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 30), min_size=9, max_size=300),
    world_size=st.integers(1, 8),
    spare=st.integers(0, 300),
    seed=st.integers(0, 9),
)
def test_batches_hold_every_pair_once_an_epoch_within_the_budget(lengths, world_size, spare, seed):
    lengths = np.array(lengths)
    budget = 2 * world_size * lengths.max() + spare
    batches = TokenBatches(lengths, budget, world_size, seed)
    for epoch in range(2):
        seen = []
        for step in range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch):
            shares = [batches.indices(step, worker) for worker in range(world_size)]
            assert all(len(share) for share in shares)
            assert sum(len(share) * lengths[share].max() for share in shares) <= budget
            seen += [pair for share in shares for pair in share]
        assert sorted(seen) == list(range(len(lengths)))


def test_batches_of_a_step_are_the_same_pairs_for_any_number_of_workers():
    lengths = np.random.default_rng(0).integers(2, 20, 500)
    few, many = (TokenBatches(lengths, 400, n, seed=3) for n in (2, 8))
    for step in (0, 5, few.per_epoch + 1):
        unions = [sorted(np.concatenate([b.indices(step, w) for w in range(n)])) for b, n in ((few, 2), (many, 8))]
        assert unions[0] == unions[1]


def test_batches_change_their_composition_from_epoch_to_epoch_and_with_the_seed():
    lengths = np.random.default_rng(0).integers(2, 20, 500)
    batches, other = TokenBatches(lengths, 400, 2, seed=3), TokenBatches(lengths, 400, 2, seed=4)

    def compositions(of, epoch):
        steps = range(epoch * of.per_epoch, (epoch + 1) * of.per_epoch)
        return {frozenset(np.concatenate([of.indices(s, w) for w in range(2)]).tolist()) for s in steps}

    assert compositions(batches, 0) == compositions(TokenBatches(lengths, 400, 2, seed=3), 0)
    assert len(compositions(batches, 0) & compositions(batches, 1)) <= 1
    assert len(compositions(batches, 0) & compositions(other, 0)) <= 1


def test_batches_refuse_a_budget_or_a_data_set_too_small_for_the_workers():
    with pytest.raises(ValueError, match=r"batch_tokens=100 is too small for world_size=8 .* give at least 160"):
        TokenBatches(np.full(50, 10), 100, 8, seed=0)
    with pytest.raises(ValueError, match="3 training pairs, fewer than world_size=8"):
        TokenBatches(np.full(3, 2), 1000, 8, seed=0)


def test_task_batches_are_padded_cut_and_within_the_budget():
    task = wmt14.build(world_size=4, max_length=12)
    limit = 0
    for step in range(40):
        for side in ("source", "target"):
            sizes = [task.batch(step, worker)[side] for worker in range(4)]
            assert sum(ids.numel() for ids in sizes) <= 512
            assert all(ids.shape[1] <= 12 and ((ids == 2).sum(1) == 1).all() for ids in sizes)  # one end each
            limit = max(limit, *(ids.shape[1] for ids in sizes))
    assert limit == 12
    assert "cut at 12 tokens" in task.notes["data"]
    assert not task.notes["data"].startswith("600 training pairs, 0 cut")


def test_task_micro_batches_hold_the_batch_and_its_loss():
    import torch

    task = wmt14.build(dropout=0.0)
    batch = task.batch(3, 0)
    model = task.build_model().double()
    parts = task.micro_batches(batch, 3)
    assert len(parts) == 3
    assert sum(task.weight(part) for part in parts) == task.weight(batch) == int((batch["target"] != 1).sum())
    total = sum(task.loss_sum(model, part) for part in parts)
    torch.testing.assert_close(total, task.loss_sum(model, batch), rtol=1e-12, atol=0)
    assert len(task.micro_batches({side: ids[:2] for side, ids in batch.items()}, 3)) == 2
