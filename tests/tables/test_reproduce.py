"""Real runs at the smallest scale, as `make reproduce` starts them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from decent_core.config.load import load
from decent_core.records.record import read
from decent_core.tables.pool import Child, quoted, run_children
from scripts.reproduce import Options, plan
from tests.support import ROOT


def start(tmp_path, *arguments):
    command = [
        sys.executable,
        "-m",
        "scripts.reproduce",
        "scale=smoke",
        f"runs={tmp_path}/runs",
        f"results={tmp_path}/r",
    ]
    return subprocess.Popen([*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def child_of(tmp_path, name, *overrides):
    (chosen,) = plan(Options(scale="smoke", experiments="p/gpt2/dadam_aer", runs=str(tmp_path)))
    return Child(name, (*chosen.overrides, *overrides), tmp_path / name, chosen.config_hash, chosen.steps)


def wait_for(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_reproduce_twice_at_once_and_again_runs_every_row_once(tmp_path):
    both = [start(tmp_path, "experiments=p/gpt2/dadam_aer", f"keep={tmp_path}/kept") for _ in range(2)]
    for process in both:
        output, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
        assert "dadam_aer" in output
    (record,) = tmp_path.glob("runs/smoke/p/gpt2/*/record.json")
    lines = [json.loads(line) for line in (record.parent / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "train"] == [2, 4, 6, 8]
    assert (record.parent / "log.txt").read_text().count("record.json") == 1  # printed by a run at its end
    assert read(record).status == "ok"
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [
        *(f"p-gpt2-smoke.{end}" for end in ("csv", "md", "png", "tex")),
        "report.html",
    ]
    assert read(tmp_path / "kept" / "smoke" / "p" / "gpt2" / "dadam_aer-s1" / "record.json") == read(record)
    before = record.stat().st_mtime_ns, (record.parent / "log.txt").stat().st_mtime_ns
    assert start(tmp_path, "experiments=p/gpt2/dadam_aer").wait(timeout=60) == 0
    assert (record.stat().st_mtime_ns, (record.parent / "log.txt").stat().st_mtime_ns) == before


def test_a_failing_run_is_named_and_leaves_the_others_alone(tmp_path, capsys):
    broken = child_of(tmp_path, "broken", "task.width=97")
    good = child_of(tmp_path, "good")
    assert run_children([broken, good], jobs=1) == [broken]
    assert good.finished()
    assert "task.width=97 must be a multiple" in broken.log_tail()
    assert "broken: failed with exit status 2" in capsys.readouterr().err


def test_an_interrupted_reproduce_stops_its_runs_which_continue_later(tmp_path):
    folder = tmp_path / "long"
    code = f"""
from pathlib import Path
from decent_core.tables.pool import Child, quoted, run_children
from decent_core.config.load import load
steps = ("trainer.steps=100000", "trainer.log_every=1", "trainer.eval_every=0")
run_children([Child("long", ("scale=smoke", *steps), Path({str(folder)!r}), "", 100000)], jobs=1)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (folder / "metrics.jsonl").exists())
    parent.send_signal(signal.SIGTERM)
    _, errors = parent.communicate(timeout=90)
    assert parent.returncode != 0
    assert "stopping 1 runs" in errors
    stopped = read(folder / "record.json")
    assert stopped.status == "preempted"
    assert (folder / "checkpoints" / f"step_{stopped.steps:08d}").is_dir()


def test_a_run_outlives_a_killed_reproduce_and_is_not_started_twice(tmp_path):
    folder = tmp_path / "long"
    child = Child("long", ("scale=smoke", "trainer.steps=100000", "trainer.log_every=1"), folder, "", 100000)
    code = f"""
from pathlib import Path
from decent_core.tables.pool import Child
Child("long", {child.overrides!r}, Path({str(folder)!r}), "", 100000).start()
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)  # ends at once; its child goes on
    wait_for(lambda: (folder / "metrics.jsonl").exists())
    assert child.start() is None
    holders = [pid for pid in os.listdir("/proc") if pid.isdigit() and str(folder) in command_of(pid)]
    assert len(holders) == 1
    os.kill(int(holders[0]), signal.SIGTERM)
    wait_for(lambda: not Path("/proc", holders[0]).exists() or command_of(holders[0]) == "")
    assert read(folder / "record.json").status == "preempted"


def command_of(pid):
    try:
        return Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def test_plan_says_why_nothing_can_be_run():
    with pytest.raises(ValueError, match="scale=tinny: no such scale; did you mean tiny"):
        plan(Options(scale="tinny"))
    with pytest.raises(ValueError, match=r"none\*: no such experiment or item; there are the items l-figure2"):
        plan(Options(experiments="none*"))


def test_plan_gives_a_changed_configuration_another_folder(tmp_path):
    chosen = Options(scale="smoke", seeds=2, runs=str(tmp_path), experiments="p/gpt2/dadam_aer")
    folders = {child.folder.name for child in plan(chosen)}
    assert {name[: len("dadam_aer-s1-")] for name in folders} == {"dadam_aer-s1-", "dadam_aer-s2-"}
    assert all(child.config_hash.startswith(child.folder.name.rpartition("-")[2]) for child in plan(chosen))


def test_a_run_may_lie_in_a_folder_of_any_name(tmp_path):
    for name in ("β2 = .98, k=8", "it's", "back\\slash"):
        folder = tmp_path / name
        folder.mkdir()
        child = child_of(folder, "run", "trainer.steps=2", "trainer.eval_every=0")
        assert str(load([*child.overrides, f"out={quoted(child.folder)}"]).out) == str(child.folder)
    assert run_children([child], jobs=1) in ([], [child])  # its hash is another, its record is there
    assert read(child.record).status == "ok"
