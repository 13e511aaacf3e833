"""Real runs at the smallest scale, as `make reproduce` starts them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from decent_core.config.load import load
from decent_core.records import archive
from decent_core.records.lines import Run
from decent_core.records.record import read
from decent_core.tables.plan import plan
from decent_core.tables.planned_run import PlannedRun, quoted
from decent_core.tables.pool import run_all
from tests.support import ROOT, commands
from tests.support.processes import still_running, wait_for


def start(tmp_path, *arguments):
    where = (f"runs={tmp_path}/runs", f"results={tmp_path}/r")
    return commands.start("scripts.reproduce", "scale=smoke", *where, *arguments)


def run_of(tmp_path, name, *overrides):
    (chosen,) = plan("p/gpt2/dadam_aer", "smoke", 1, tmp_path).runs
    return PlannedRun(name, (*chosen.overrides, *overrides), tmp_path / name, chosen.config_hash, chosen.steps)


def test_reproduce_twice_at_once_and_again_runs_every_row_once(tmp_path):
    both = [start(tmp_path, "experiments=p/gpt2/dadam_aer", f"keep={tmp_path}/kept") for _ in range(2)]
    for process in both:
        done = process.wait(200)
        assert done.returncode == 0, done.stderr
        assert "dadam_aer" in done.stdout
    (record,) = tmp_path.glob("runs/smoke/p/gpt2/*/record.json")
    lines = [json.loads(line) for line in (record.parent / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "train"] == [2, 4, 6, 8]
    assert (record.parent / "log.txt").read_text().count("record.json") == 1  # printed by a run at its end
    assert read(record).status == "ok"
    written = sorted(str(path.relative_to(tmp_path / "r")) for path in (tmp_path / "r").rglob("*.*"))
    assert written == [*(f"p/gpt2/smoke.{end}" for end in ("csv", "md", "png", "tex")), "report.html"]
    assert archive.unpack(tmp_path / "kept" / "p" / "gpt2") == [Run("dadam_aer", "", read(record))]
    before = record.stat().st_mtime_ns, (record.parent / "log.txt").stat().st_mtime_ns
    assert start(tmp_path, "experiments=p/gpt2/dadam_aer").wait().returncode == 0
    assert (record.stat().st_mtime_ns, (record.parent / "log.txt").stat().st_mtime_ns) == before


def test_a_failing_run_is_named_and_leaves_the_others_alone(tmp_path, capsys):
    broken = run_of(tmp_path, "broken", "task.width=97")
    good = run_of(tmp_path, "good")
    assert run_all([broken, good], jobs=1) == [broken]
    assert good.finished()
    assert "task.width=97 must be a multiple" in broken.log_tail()
    assert "broken: failed with exit status 2" in capsys.readouterr().err


def test_an_interrupted_reproduce_stops_its_runs_which_continue_later(tmp_path):
    folder = tmp_path / "long"
    code = f"""
from pathlib import Path
from decent_core.tables.planned_run import PlannedRun
from decent_core.tables.pool import run_all
steps = ("trainer.steps=100000", "trainer.log_every=1", "trainer.eval_every=0")
run_all([PlannedRun("long", ("scale=smoke", *steps), Path({str(folder)!r}), "", 100000)], jobs=1)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    wait_for((folder / "metrics.jsonl").exists, "it has not begun", 90)
    parent.send_signal(signal.SIGTERM)
    _, errors = parent.communicate(timeout=90)
    assert parent.returncode != 0
    assert "stopping 1 runs" in errors
    stopped = read(folder / "record.json")
    assert stopped.status == "preempted"
    assert (folder / "checkpoints" / f"step_{stopped.steps:08d}").is_dir()


def test_a_run_outlives_a_killed_reproduce_and_is_not_started_twice(tmp_path):
    folder = tmp_path / "long"
    run = PlannedRun("long", ("scale=smoke", "trainer.steps=100000", "trainer.log_every=1"), folder, "", 100000)
    code = f"""
from pathlib import Path
from decent_core.tables.planned_run import PlannedRun
PlannedRun("long", {run.overrides!r}, Path({str(folder)!r}), "", 100000).start()
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)  # ends at once; its run goes on
    wait_for((folder / "metrics.jsonl").exists, "it has not begun", 90)
    assert run.start() is None
    holders = [pid for pid in os.listdir("/proc") if pid.isdigit() and str(folder) in command_of(pid)]
    assert len(holders) == 1
    os.kill(int(holders[0]), signal.SIGTERM)
    assert not still_running([int(holders[0])], 90)
    assert read(folder / "record.json").status == "preempted"


def command_of(pid):
    try:
        return Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.slow
def test_a_run_may_lie_in_a_folder_of_any_name(tmp_path):
    for name in ("β2 = .98, k=8", "it's", "back\\slash"):
        folder = tmp_path / name
        folder.mkdir()
        run = run_of(folder, "run", "trainer.steps=2", "trainer.eval_every=0")
        assert str(load([*run.overrides, f"out={quoted(run.folder)}"]).out) == str(run.folder)
    assert run_all([run], jobs=1) in ([], [run])  # its hash is another, its record is there
    assert read(run.record).status == "ok"
