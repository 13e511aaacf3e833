"""Every committed run is one that a table still asks for."""

from pathlib import Path

import pytest

from decent_core.records.archive import read_tables
from decent_core.tables.plan import plan
from tests.support import ROOT

TABLES = read_tables(ROOT / "results")


@pytest.mark.parametrize("name", TABLES)
def test_run_belongs_to_a_cell_of_its_table(name):
    for scale in {run.record.scale for run in TABLES[name]}:
        runs = [run for run in TABLES[name] if run.record.scale == scale]
        cells = plan(name, scale, max(run.record.seed for run in runs), Path("runs")).cells
        planned = {(cell.row.key, cell.setting.key, cell.seed, cell.run.config_hash) for cell in cells}
        assert {(run.row, run.setting, run.record.seed, run.record.config_hash) for run in runs} <= planned
