"""Runs as columns: nothing is lost, and a damaged file is named with its line."""

import gzip
import json
import random
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decent_core.records.archive import COMMON, CURVES, PARAMETERS, RUNS, Run, keep, pack, read_all, read_tables, unpack
from decent_core.records.columns import flatten, from_cell, nest, to_cell
from decent_core.records.record import write
from tests.support import ROOT
from tests.support.records import make_record

DIGESTS = ROOT / "tests" / "records" / "committed.sha256"
TABLES = sorted(path.parent for path in (ROOT / "results").rglob(RUNS))
TEXTS = st.text() | st.sampled_from(
    ["1", "null", "true", "NaN", "1e5", '"', "[", "{}", " 1", "a,b", "a\nb", "\r", "β2"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def runs():
    """Three rows of two seeds, with what differs from run to run in many ways."""
    made = [
        make_record(row, seed, 5.0 + seed / 3, run_id=f"{row}-{seed}")
        for row in ("allreduce_adamw", "accum_adamw_aer", "dadam_aer") for seed in (1, 2)
    ]  # fmt: skip
    made[1] = replace(made[1], status="diverged", message="1e5", metrics={"val_loss": None}, curve=[], best={"step": 3})
    made[2] = replace(made[2], local_size=[3, 5], git_dirty=None, git_commit=None, notes={"data": "a, b", "x.y": "z"})
    made[0] = replace(made[0], parameters_sha256=["a1", "2e5"])
    made[1] = replace(made[1], parameters_sha256=[])
    made[3] = replace(made[3], outputs=[{"source": "ü, \n", "b": "1"}], lower_is_better=True, train_seconds=4)
    return [Run(record.experiment.rpartition("/")[2], f"setting {record.seed}", record) for record in made]


def store(folder, given):
    keep(given, folder)
    return folder


def as_json(found):
    """Exact: 4 is not 4.0, a field that is missing is not null."""
    return [json.dumps([run.row, run.setting, asdict(run.record)], sort_keys=True) for run in found]


def test_runs_are_given_back_as_they_were(tmp_path):
    expected = as_json(sorted(runs(), key=lambda run: run.order))
    assert as_json(unpack(store(tmp_path / "t", runs()))) == expected
    assert as_json(unpack(store(tmp_path / "one", runs()[3:4]))) == as_json(runs()[3:4])


def test_files_depend_on_the_runs_alone(tmp_path):
    shuffled = random.Random(1).sample(runs(), 6)
    assert pack(shuffled) == pack(runs())
    for run in shuffled:
        keep([run], tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == pack(runs())
    assert pack(runs())[CURVES][4:8] == bytes(4)  # no time of day


@QUICK
@given(st.dictionaries(st.text("ab.", min_size=1), VALUES, max_size=4))
def test_any_nested_values_survive_in_cells(values):
    nested = {"top": values}
    cells = {name: to_cell(value) for name, value in flatten(nested).items()}
    assert all(cells.values())
    back = nest({name: from_cell(text) for name, text in cells.items()})
    assert json.dumps(back, sort_keys=True) == json.dumps(nested, sort_keys=True)


@QUICK
@given(st.lists(VALUES, min_size=1, max_size=3))
def test_any_values_survive_in_the_files(values):
    made = [Run("row", str(i), make_record(run_id=f"r{i}", best={"x": v})) for i, v in enumerate(values)]
    with TemporaryDirectory() as folder:
        assert as_json(unpack(store(Path(folder), made))) == as_json(made)


def test_a_run_that_is_kept_again_takes_the_place_of_the_former(tmp_path):
    first, other = runs()[:2]
    store(tmp_path, [first, other])
    later = replace(first, record=replace(first.record, train_seconds=9.5))
    keep([later], tmp_path)
    assert unpack(tmp_path) == [later, other]


def test_two_different_runs_of_one_name_are_refused(tmp_path):
    run = runs()[0]
    with pytest.raises(ValueError, match="two different runs of the table have it"):
        keep([run, replace(run, row="other", record=replace(run.record, samples=1))], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_runs_kept_at_the_same_time_are_all_there(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.records.test_archive import keep, runs;"
        "keep([runs()[int(sys.argv[1])]], Path(sys.argv[2]))"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(i), tmp_path], cwd=ROOT) for i in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert {run.record.run_id for run in unpack(tmp_path)} == {run.record.run_id for run in runs()[:3]}


def test_pandas_reads_the_runs_in_one_call(tmp_path):
    frame = pandas.read_csv(store(tmp_path, runs()) / RUNS)
    assert frame.groupby("row")["learning_rate"].mean().round(6).to_dict() == dict.fromkeys(frame["row"], 6e-4)
    assert frame["metrics.val_loss"].count() == 5
    assert pandas.read_csv(tmp_path / CURVES).groupby("run_id").size().eq(4).all()


def test_records_in_tables_and_in_files_of_their_own_are_read_together(tmp_path):
    store(tmp_path / "p" / "gpt2", runs()[:2])
    write(make_record(seed=9), tmp_path / "more" / "record.json")
    assert [record.seed for record in read_all(tmp_path)] == [1, 2, 9]
    assert read_all(tmp_path / "more" / "record.json") == [make_record(seed=9)]
    for folder in (tmp_path, tmp_path / "p", tmp_path / "p" / "gpt2"):
        assert {name: len(found) for name, found in read_tables(folder).items()} == {"p/gpt2": 2}


def damage(path, old, new):
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    assert old in content
    content = content.replace(old, new, 1)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        (RUNS, b",seed,", b",sede,", "line 1: there is no column 'seed'"),
        (RUNS, b"eval_seconds", b"samples", "line 1: column 'samples' is there twice"),
        (RUNS, b"eval_seconds", b"eval_secs", "line 2: unknown field 'eval_secs'"),
        (RUNS, b"eval_seconds", b"steps.x", "line 2: column 'steps.x' is below 'steps'"),
        (RUNS, b",640,", b",many,", "line 2: field 'samples' is 'many', expected int"),
        (RUNS, b",640,", b",,", "line 2: field 'samples' is missing"),
        (RUNS, b",640,", b",640,1,", "line 2: .* cells, the header has"),
        (RUNS, b"640", b"\xff", "no UTF-8 text"),
        (RUNS, b"setting 1", b"1", "line 2: row is .* and setting 1, expected keys"),
        (COMMON, b"schema: 1", b"schema: 2", "line 2: schema is 2"),
        (COMMON, b"same_as", b"same", "has no 'same_as'"),
        (COMMON, b"task:", b"\ttask:", "no YAML"),
        (CURVES, b"run_id", b"run", "line 1: there is no column 'run_id'"),
        (CURVES, b"seconds", b"step", "line 1: column 'step' is there twice"),
        (CURVES, b"seconds", b"step.x", "line 2: column 'step.x' is below 'step'"),
        (PARAMETERS, b"worker", b"rank", "line 1: there is no column 'worker'"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_with_line_and_column(tmp_path, name, old, new, problem):
    damage(store(tmp_path, runs()) / name, old, new)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=problem) as caught:
        unpack(tmp_path)
    assert str(tmp_path / name if name != COMMON or "line" not in problem else tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=problem):
        keep(runs(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_parameters_that_are_not_those_of_the_run_are_refused(tmp_path):
    damage(store(tmp_path, runs()) / PARAMETERS, b"a1", b"a2")
    with pytest.raises(ValueError, match=rf"{RUNS}, line 3: .* has others for run_id=allreduce_adamw-1"):
        unpack(tmp_path)


def test_no_cell_is_a_formula():
    for text in ("=1+1", "+1 a", "-x", "@sum(1)"):
        assert (to_cell(text)[0], from_cell(to_cell(text))) == ('"', text)
    assert to_cell(-1.5) == "-1.5"


def test_a_file_that_is_missing_or_cut_is_named(tmp_path):
    store(tmp_path, runs())
    for name in (CURVES, PARAMETERS):
        whole = (tmp_path / name).read_bytes()
        for cut in (whole[:-9], b"no gzip", b""):
            (tmp_path / name).write_bytes(cut)
            with pytest.raises(ValueError, match=name):
                unpack(tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(ValueError, match=f"{name}: cannot be read"):
            unpack(tmp_path)
        (tmp_path / name).write_bytes(whole)
