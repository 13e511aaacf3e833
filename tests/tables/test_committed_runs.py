"""Every committed record is one that a table still asks for."""

from pathlib import Path

import pytest

from decent_core.records.record import read_all
from decent_core.tables.plan import plan
from tests.support import ROOT

KEPT = {"accumulation": "p/accumulation", "decentlam": "l/decentlam", "decentlam_small": "l/decentlam_small"}


@pytest.mark.parametrize("name", KEPT)
def test_record_of_a_study_belongs_to_a_run_of_its_table(name):
    planned = {cell.run.config_hash for cell in plan(KEPT[name], None, None, Path("runs")).cells}
    assert {record.config_hash for record in read_all(ROOT / "results" / "studies" / name / "records")} <= planned


def test_record_of_a_published_table_belongs_to_a_run_of_it():
    records = read_all(ROOT / "results" / "records")
    assert records
    for scale in {record.scale for record in records}:
        own = [record for record in records if record.scale == scale]
        rows = " ".join({str(record.experiment) for record in own})
        cells = plan(rows, scale, max(record.seed for record in own), Path("runs")).cells
        planned = {(cell.experiment, cell.seed): cell.run.config_hash for cell in cells}
        assert all(planned[record.experiment, record.seed] == record.config_hash for record in own)
