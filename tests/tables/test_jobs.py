"""Jobs files: what is written comes back, and a mistake in one is one message."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from decent_core.config.load import load
from decent_core.records.record import write
from decent_core.report.run_tables import unfinished
from decent_core.tables.jobs import jobs_text, read_jobs
from decent_core.tables.plan import plan
from scripts import tables
from tests.support import commands
from tests.support.records import make_record


def test_unfinished_runs_are_named_with_what_is_known(tmp_path):
    runs = plan("p/gpt2/dadam_*", "tiny", 2, tmp_path).runs
    write(replace(make_record(), config_hash=runs[0].config_hash), runs[0].record)
    write(replace(make_record(), config_hash=runs[1].config_hash, status="failed", message="broke"), runs[1].record)
    write(replace(make_record(), config_hash="another"), runs[2].record)
    (tmp_path / "jobs").write_text(jobs_text(runs))
    assert unfinished(read_jobs(tmp_path / "jobs")) == [
        "line 2, p/gpt2/dadam_complete-s1: failed: broke",
        f"line 3, p/gpt2/dadam_aer-s2: no record in {runs[2].folder}",
        f"line 4, p/gpt2/dadam_complete-s2: no record in {runs[3].folder}",
    ]


@pytest.mark.parametrize("name", ["plain", "it's k=1, β2", 'a "b" \\c', "~#!$(id)"])
def test_a_folder_of_any_name_comes_back_from_a_jobs_file(tmp_path, name):
    out = tmp_path / "jobs.txt"
    tables.main(["plan", "table=p/gpt2/dadam_aer", "scale=tiny", f"runs={tmp_path / name}", f"out={out}"])
    (line,), (run,) = out.read_text().splitlines(), read_jobs(out)
    config = load(shlex.split(line))
    assert Path(config.out) == run.folder == tmp_path / name / "tiny" / f"p/gpt2/dadam_aer-s1-{config.config_hash[:8]}"
    assert ("'" in line) == (name != "plain"), "quotes stand only where they are needed"
    assert run == replace(plan("p/gpt2/dadam_aer", "tiny", 1, tmp_path / name, launched=True).runs[0], name=run.name)


@pytest.mark.parametrize("name", ["two\nlines", "${x}", "a\\'b"])
def test_a_folder_that_cannot_stand_in_a_jobs_file_is_refused(tmp_path, name):
    runs = plan("p/gpt2/dadam_aer", "tiny", 1, tmp_path / name).runs
    with pytest.raises(ValueError, match=r"no folder for runs; any name works without line breaks, \$\{ and \\'"):
        jobs_text(runs)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("scale=tiny out='runs/a", "No closing quotation"),
        ("scale=tinny out=runs/a", "scale=tinny: no such scale; did you mean tiny?"),
        ("scale=tiny out=runs/a,b", "out=runs/a,b: a run has one value a key"),
        ("scale=tiny out=runs/a out=runs/b", "out: given more than once"),
        ("scale=tiny", "it names no folder; give out=FOLDER"),
        ("\xff", "\N{REPLACEMENT CHARACTER}: give each override as key=value"),
    ],
)
def test_a_mistake_in_a_jobs_file_is_one_message_that_names_the_line(tmp_path, line, said):
    jobs = tmp_path / "jobs.txt"
    jobs.write_text(f"scale=tiny out=runs/a\n{line}\n", encoding="latin-1")
    with pytest.raises(ValueError, match=re.escape(f"{jobs}, line 2: {said}")):
        read_jobs(jobs)


def test_an_open_quote_in_a_jobs_file_is_no_traceback(tmp_path):
    (tmp_path / "jobs.txt").write_text("scale=tiny out='runs/a\n")
    done = commands.run("scripts.tables", "report", f"jobs={tmp_path}/jobs.txt", f"results={tmp_path}/results")
    assert (done.returncode, done.stderr) == (2, f"{tmp_path}/jobs.txt, line 1: No closing quotation\n")
