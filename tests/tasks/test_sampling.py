"""Epochs and positions: coverage, random access, independence of the number of workers."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.common.sampling import Epochs, generator, local_batch, positions


@given(size=st.integers(1, 50), seed=st.integers(0, 2**32), epochs=st.integers(1, 4))
def test_every_epoch_holds_every_item_once(size, seed, epochs):
    numbers, items = Epochs(size, seed).take(0, size * epochs)
    assert numbers.tolist() == np.repeat(np.arange(epochs), size).tolist()
    for epoch in items.reshape(epochs, size):
        assert sorted(epoch) == list(range(size))


@given(size=st.integers(1, 50), seed=st.integers(0, 99), first=st.integers(0, 10**6), count=st.integers(1, 120))
def test_random_access_is_sequential_access(size, seed, first, count):
    at_once = Epochs(size, seed).take(first, count)
    one_by_one = Epochs(size, seed)
    singles = [one_by_one.take(position, 1) for position in range(first, first + count)]
    assert at_once[0].tolist() == [int(epochs[0]) for epochs, _ in singles]
    assert at_once[1].tolist() == [int(items[0]) for _, items in singles]


def test_order_differs_between_epochs_seeds_and_streams():
    orders = [Epochs(1000, seed, stream).take(epoch * 1000, 1000)[1] for seed, stream, epoch in np.ndindex(2, 2, 2)]
    for i, order in enumerate(orders):
        assert all((order != other).any() for other in orders[:i])


@given(a=st.lists(st.integers(0, 3), max_size=3), b=st.lists(st.integers(0, 3), max_size=3), seed=st.integers(0, 3))
def test_generator_is_its_own_for_every_key(a, b, seed):
    same = generator(seed, *a).integers(2**62) == generator(seed, *b).integers(2**62)
    assert same == (a == b)


@given(step=st.integers(0, 1000), local=st.integers(1, 6), world_size=st.sampled_from([1, 2, 3, 5, 8]))
def test_union_over_workers_is_the_global_batch(step, local, world_size):
    global_batch = local * world_size
    union = []
    for worker in range(world_size):
        first, count = positions(step, worker, local, world_size)
        union += range(first, first + count)
    assert union == list(range(step * global_batch, (step + 1) * global_batch))


def test_local_batch_that_cannot_be_shared_names_what_works():
    assert local_batch(480, 16) == 30
    with pytest.raises(ValueError, match=r"global_batch=480 .* world_size=7 workers: give 476 or 483"):
        local_batch(480, 7)
    with pytest.raises(ValueError, match=r"world_size=7 workers: give 7, or"):
        local_batch(3, 7)


def test_order_of_an_openwebtext_epoch_takes_four_bytes_a_window():
    windows = 9_000_000
    tracemalloc.start()
    Epochs(windows, seed=1).take(windows - 1, 2)  # two epochs at once
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 8.1 * windows
    assert peak < 8.3 * windows
