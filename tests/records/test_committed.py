"""The committed runs are those that were made: committed.sha256 has a digest of each record before it was packed."""

import gzip
import hashlib
import json
from dataclasses import asdict

import pytest

from decent_core.config.table_file import load_table
from decent_core.records.archive import COMMON, CURVES, PARAMETERS, RUNS, pack, read_tables
from tests.support import ROOT

TABLES = read_tables(ROOT / "results")
DIGESTS = (ROOT / "tests" / "records" / "committed.sha256").read_text().splitlines()


def digest(record):
    return hashlib.sha256(json.dumps(asdict(record), sort_keys=True).encode()).hexdigest()


def test_every_record_is_given_back_as_it_was_made():
    """A line: sha256 of the record as JSON with sorted keys, table, run_id. Further runs may have been added since."""
    found = {f"{digest(run.record)}  {table} {run.record.run_id}" for table, runs in TABLES.items() for run in runs}
    assert len(DIGESTS) == 564
    assert set(DIGESTS) <= found


@pytest.mark.parametrize("name", TABLES)
def test_files_are_those_that_keep_writes(name):
    folder, files = ROOT / "results" / name, pack(TABLES[name])
    assert (folder / RUNS).read_bytes() == files[RUNS]
    assert (folder / COMMON).read_bytes() == files[COMMON]
    for zipped in (CURVES, PARAMETERS):
        assert gzip.decompress((folder / zipped).read_bytes()) == gzip.decompress(files[zipped])


@pytest.mark.parametrize("name", TABLES)
def test_runs_are_small_enough_for_github_to_show_them_as_a_table(name):
    assert (ROOT / "results" / name / RUNS).stat().st_size < 512 * 1024


@pytest.mark.parametrize("name", TABLES)
def test_every_run_has_a_row_and_a_setting_of_its_table_and_was_measured_from_a_commit(name):
    table = load_table(name)
    keys = {(row.key, setting.key) for row in table.rows for setting in table.settings}
    assert {(run.row, run.setting) for run in TABLES[name]} <= keys
    for run in TABLES[name]:
        assert run.record.source == "measured"
        assert not run.record.git_dirty
        assert run.record.experiment in (None, f"{name}/{run.row}")
