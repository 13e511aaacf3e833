"""Ranks that were started differently say so at once, all of them, and train nothing."""

from dataclasses import replace

import pytest
import torch

from decent_core.config.load import load
from decent_core.training.handshake import check_agreement, first_difference
from decent_core.training.launch import find_launch
from tests.support.ranks import run_ranks

COMMAND = ["task=regression", "scale=smoke", "method=awc", "topology=ring", "engine=distributed"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ([{"a": "1"}, {"a": "1"}], None),
        ([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}], "b: 2 on rank 0, 3 on rank 1"),
        ([{"a": "1"}, {"a": "2"}, {"a": "1"}], "a: 1 on ranks 0, 2, 2 on rank 1"),
        ([{"a": "1"}, {}], "a: 1 on rank 0, nothing on rank 1"),
        ([{}, {"a": "1"}], "a: nothing on rank 0, 1 on rank 1"),
    ],
)
def test_first_difference(facts, said):
    assert first_difference(facts) == said


def rank_is_configured(rank, changes):
    config = load([*COMMAND, *changes[rank]])
    if "threads" in str(changes):
        config = replace(config, trainer=replace(config.trainer, threads=rank + 1))
    try:
        check_agreement(config, torch.device("cpu"))
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("optimizer.lr=0.5", "optimizer.lr: 0.01 on ranks 0, 2, 0.5 on rank 1"),
        ("seed=4", "seed: 1 on ranks 0, 2, 4 on rank 1"),
        ("trainer.steps=3", "trainer.steps: 8 on ranks 0, 2, 3 on rank 1"),
        ("engine.bucket_mib=3", "engine.bucket_mib: 25.0 on ranks 0, 2, 3.0 on rank 1"),
        ("engine.timeout_seconds=9", "engine.timeout_seconds: 600.0 on ranks 0, 2, 9.0 on rank 1"),
        ("trainer.threads=2", None),
    ],
)
def test_every_rank_refuses_what_one_of_them_has_otherwise(change, key):
    found = run_ranks(rank_is_configured, 3, [[], [change], []])
    assert len(set(found)) == 1
    assert found[0] is None if key is None else found[0].startswith(key)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": "abc"}, "RANK=abc: must be a whole number, at least 0"),
        ({"RANK": "-1"}, "RANK=-1: must be a whole number, at least 0"),
        ({"RANK": "7"}, "RANK=7: must be below WORLD_SIZE=2"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two: must be a whole number, at least 0"),
        ({"LOCAL_RANK": "x"}, "LOCAL_RANK=x: must be a whole number, at least 0"),
    ],
)
def test_variables_of_a_launcher_that_cannot_be_are_named(changes, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        find_launch({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", **changes})
    assert str(caught.value) == message
