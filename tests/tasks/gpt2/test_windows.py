"""Windows over known tokens: what is seen, what is predicted, where shards are cut."""

from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.gpt2.windows import IGNORED, TrainingWindows, ValidationWindows, shards_by_document


def counting(length):
    return np.arange(length, dtype=np.uint16)


@given(
    length=st.integers(9, 200),
    first=st.integers(0, 20),
    context=st.integers(1, 4),
    seed=st.integers(0, 99),
    epoch=st.integers(0, 3),
)
def test_training_windows_of_an_epoch_are_side_by_side_from_its_offset(length, first, context, seed, epoch):
    windows = TrainingWindows(counting(first + length + 5), first, first + length, context, seed, stream=0)
    count = windows.epochs.size
    taken = windows.take(epoch * count, count)
    taken = taken[np.argsort(taken[:, 0])]
    offset = taken[0, 0] - first
    assert 0 <= offset <= length - 1 - count * context < 2 * context
    assert (taken == first + offset + np.arange(count)[:, None] * context + np.arange(context + 1)).all()


def test_training_windows_leave_no_token_out_for_ever_and_move_their_borders():
    windows = TrainingWindows(counting(107), 0, 107, context=8, seed=3, stream=0)
    epochs = [windows.take(epoch * windows.epochs.size, windows.epochs.size) for epoch in range(200)]
    assert len({int(epoch.min()) for epoch in epochs}) == 8 + (107 - 1) % 8 + 1  # every offset
    predicted = Counter(np.concatenate([epoch[:, 1:].ravel() for epoch in epochs]).tolist())
    assert set(predicted) == set(range(1, 107))
    assert max(predicted.values()) <= 200


def test_training_batch_across_an_epoch_border_continues_in_the_next_epoch():
    windows = TrainingWindows(counting(100), 0, 100, context=4, seed=0, stream=0)
    count = windows.epochs.size
    across = windows.take(count - 2, 5)
    assert (across[:2] == windows.take(count - 2, 2)).all()
    assert (across[2:] == windows.take(count, 3)).all()


def test_too_few_training_tokens_are_refused():
    TrainingWindows(counting(9), 0, 9, context=4, seed=0, stream=0)
    with pytest.raises(ValueError, match=r"8 training tokens are too few .*context=4: a worker needs 9"):
        TrainingWindows(counting(9), 0, 8, context=4, seed=0, stream=0)


@given(length=st.integers(2, 200), context=st.integers(1, 12), batch=st.integers(1, 5))
def test_validation_predicts_every_token_once_in_order(length, context, batch):
    windows = ValidationWindows(counting(length), context, batch, limit=None)
    batches = list(windows)
    assert len(batches) == len(windows)
    inputs = np.concatenate([b["inputs"].numpy().ravel() for b in batches])
    targets = np.concatenate([b["targets"].numpy().ravel() for b in batches])
    counted = targets != IGNORED
    assert targets[counted].tolist() == list(range(1, length))
    assert inputs[counted].tolist() == list(range(length - 1))
    assert all(b["inputs"].shape == (batch, context) for b in batches[:-1])


@given(length=st.integers(30, 300), context=st.integers(1, 12), limit=st.integers(12, 400), batch=st.integers(1, 5))
def test_validation_limit_keeps_whole_windows_spread_over_the_text(length, context, limit, batch):
    batches = list(ValidationWindows(counting(length), context, batch, limit))
    targets = np.concatenate([b["targets"].numpy() for b in batches])
    if limit >= length - 1:
        assert (targets != IGNORED).sum() == length - 1
        return
    assert targets.shape == (limit // context, context)
    starts = targets[:, 0] - 1
    assert (starts % context == 0).all()
    assert (targets == starts[:, None] + 1 + np.arange(context)).all()
    assert starts[0] == 0
    gaps = np.diff(starts // context)
    assert len(gaps) == 0 or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 1)


def test_validation_windows_behave_as_a_sequence():
    windows = ValidationWindows(counting(50), context=4, batch=3, limit=None)
    assert len(windows) == 5
    assert (windows[-1]["inputs"] == windows[4]["inputs"]).all()
    assert [b["inputs"].shape[0] for b in windows[1:]] == [3, 3, 3, 1]
    with pytest.raises(IndexError):
        windows[5]


@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=40), world_size=st.integers(1, 6))
def test_shards_are_runs_of_whole_documents(lengths, world_size):
    end = 7
    tokens = np.concatenate([np.array([1] * (length - 1) + [end], dtype=np.uint16) for length in lengths])
    if max(lengths) > len(tokens) // world_size:  # may work or not
        with suppress(ValueError):
            check_shards(tokens, end, shards_by_document(tokens, end, world_size))
    else:
        check_shards(tokens, end, shards_by_document(tokens, end, world_size))


def check_shards(tokens, end, shards):
    assert [first for first, _ in shards] == [0] + [last for _, last in shards[:-1]]
    assert shards[-1][1] == len(tokens)
    for first, last in shards:
        assert first < last
        assert tokens[last - 1] == end


def test_shards_have_about_equally_many_tokens():
    tokens = np.tile(np.array([1, 1, 1, 7], dtype=np.uint16), 1000)
    assert shards_by_document(tokens, 7, 4) == [(0, 1000), (1000, 2000), (2000, 3000), (3000, 4000)]


def test_fewer_documents_than_workers_are_refused():
    with pytest.raises(ValueError, match=r"sharding=by_document with world_size=3: use fewer workers"):
        shards_by_document(np.array([1, 1, 7, 1, 7], dtype=np.uint16), 7, 3)


def test_shards_find_an_end_of_text_that_is_far_away():
    tokens = np.ones(300_000, dtype=np.uint16)
    tokens[[10, 290_000, 299_999]] = 7
    assert shards_by_document(tokens, 7, 2) == [(0, 290_001), (290_001, 300_000)]
