from dataclasses import replace

import pytest

from decent_core.report.compare import baseline, compare, difference
from tests.support.records import make_record


def test_compare_groups_what_differs_in_the_seed_alone():
    records = [make_record("dadam_aer", seed, 5.0 + seed) for seed in (2, 1)]
    longer = make_record("dadam_aer", 1)
    records.append(replace(longer, config=longer.config | {"trainer": {"steps": 80}}, config_hash="other"))
    short, long = sorted(compare(records), key=lambda row: -len(row.runs))
    assert [run.seed for run in short.runs] == [1, 2]
    assert short.interval("val_loss").mean == 6.5
    assert len(long.runs) == 1
    assert short.label != long.label  # the same words would hide that they differ


def test_compare_puts_all_reduce_first_and_keeps_scales_and_sources_apart():
    rows = compare([make_record("dadam_aer"), make_record("allreduce_adamw")])
    assert [row.first.method for row in rows] == ["allreduce", "awc"]
    assert len(compare([make_record(), make_record(source="measured"), make_record(scale="small")])) == 3


def test_compare_counts_what_was_missed():
    records = [
        make_record("dadam_aer", 1, 5.0),
        make_record("dadam_aer", 2, status="diverged", metrics={}),
        make_record("dadam_aer", 3, status="failed", metrics={}),
    ]
    (row,) = compare(records)
    assert row.missed == {"diverged": 1, "failed": 1}
    assert row.interval("val_loss").n == 1
    assert len(row.records) == 3


def test_compare_takes_the_last_finished_record_of_a_run():
    first = make_record(loss=5.0)
    again = make_record(loss=4.0, started_at="2026-01-02T00:00:00+00:00")
    stopped = make_record(status="preempted", metrics={}, started_at="2026-01-03T00:00:00+00:00")
    (row,) = compare([again, stopped, first])
    assert row.interval("val_loss").mean == 4.0
    assert row.missed == {}


def test_compare_labels_say_what_the_user_changed():
    changed = make_record(
        "dadam_aer", overrides=["experiment=p/gpt2/dadam_aer", "scale=tiny", "seed=1", "optimizer.lr=1"]
    )
    free = make_record(
        "dadam_aer", experiment=None, overrides=["method=awc", "optimizer=adamw", "out=x", "task.width=8"]
    )
    assert compare([changed])[0].label == "dadam_aer, optimizer.lr=1, simulated"
    assert compare([free])[0].label == "awc + adamw, aer, task.width=8, simulated"


def test_difference_is_paired_by_seed():
    noise = {1: 0.0, 2: 10.0, 3: -7.0}  # common to both rows; it must cancel
    base = [make_record("allreduce_adamw", seed, 5.0 + noise[seed]) for seed in noise]
    other = [make_record("dadam_aer", seed, 5.5 + noise[seed]) for seed in (1, 2)]
    reference, row = compare([*base, *other])
    found = difference(row, reference, "val_loss")
    assert (found.mean, found.n) == (pytest.approx(0.5), 2)
    assert found.half_width == pytest.approx(0.0, abs=1e-12)
    assert difference(compare([make_record("dadam_aer", 9)])[0], reference, "val_loss") is None


def test_baseline_is_all_reduce_with_the_optimizer_that_does_not_accumulate():
    rows = compare([make_record("allreduce_accum_adamw"), make_record("allreduce_adamw"), make_record("dadam_aer")])
    assert baseline(rows).label.startswith("allreduce_adamw")
    assert baseline(compare([make_record("dadam_aer")])) is None
