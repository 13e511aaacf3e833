import json
import math
from dataclasses import fields, replace

import pytest

from decent_core.records.archive import read_all
from decent_core.records.record import Record, read, write
from decent_core.report.compare import make_row
from tests.support.records import make_record


def altered(path, **changes):
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}))
    return path


@pytest.fixture
def path(tmp_path):
    return write(make_record(), tmp_path / "run" / "record.json")


def test_record_read_gives_back_what_was_written(path):
    assert read(path) == make_record()


def test_record_holds_every_field_of_the_contract(path):
    contract = """schema run_id source status task optimizer method topology engine scale world_size local_size seed
        overrides config git_commit git_dirty versions device started_at steps samples train_seconds eval_seconds
        step_ms_p50 step_ms_p95 wait_ms_p50 bytes_sent_per_step peak_gib metrics best consensus_distance curve"""
    assert set(contract.split()) <= json.loads(path.read_text()).keys()


def test_record_writes_null_for_values_that_are_not_finite(tmp_path):
    record = make_record(metrics={"val_loss": math.nan}, train_seconds=1.0, consensus_distance=math.inf)
    content = json.loads(write(record, tmp_path / "record.json").read_text(), parse_constant=pytest.fail)
    assert content["metrics"] == {"val_loss": None}
    assert content["consensus_distance"] is None


def test_record_of_before_the_direction_was_noted_is_read_and_judged_by_its_name(path):
    old = read(altered(path, lower_is_better=...))
    assert old.lower_is_better is None
    assert make_row("", [old]).lower_is_better
    assert not make_row("", [replace(old, primary_metric="top1")]).lower_is_better
    assert make_row("", [replace(old, primary_metric="error_rate", lower_is_better=True)]).lower_is_better


@pytest.mark.parametrize("field", [field.name for field in fields(Record) if field.name != "lower_is_better"])
def test_record_names_file_and_field_that_is_missing(path, field):
    with pytest.raises(ValueError, match=field) as caught:
        read(altered(path, **{field: ...}))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", "1"), ("seed", True), ("seed", 1.5), ("status", "fine"), ("source", None), ("local_size", [4, "4"]),
        ("metrics", {"val_loss": "low"}), ("curve", {}), ("git_dirty", 0), ("train_seconds", None), ("overrides", [1]),
    ],
)  # fmt: skip
def test_record_names_field_of_another_type(path, field, value):
    with pytest.raises(ValueError, match=f"field '{field}' is"):
        read(altered(path, **{field: value}))


def test_record_takes_whole_numbers_for_floats_and_lists_of_node_sizes(path):
    assert read(altered(path, train_seconds=4, local_size=[3, 5])).local_size == [3, 5]


def test_record_refuses_unknown_fields_schemas_and_files_that_are_no_records(path, tmp_path):
    with pytest.raises(ValueError, match="unknown field 'sede'"):
        read(altered(path, sede=1))
    with pytest.raises(ValueError, match="schema is 99"):
        read(altered(path, sede=..., schema=99))
    for content in ("{", "[]", ""):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"record\.json"):
            read(path)
    with pytest.raises(ValueError, match="nowhere"):
        read(tmp_path / "nowhere.json")


def test_all_records_are_those_in_record_files(path, tmp_path):
    (path.parent / "checkpoints").mkdir()
    (path.parent / "checkpoints" / "manifest.json").write_text("{}")
    assert read_all(tmp_path) == read_all(path) == [make_record()]
