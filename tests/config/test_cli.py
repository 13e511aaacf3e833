import errno
import importlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from decent_core import topology
from decent_core.config.command_line import options, run_main
from decent_core.records.record import write
from decent_core.system.files import WrongPath, make_folder, write_atomically
from tests.support import ROOT
from tests.support.records import make_record


@dataclass(frozen=True)
class Wanted:
    name: str
    count: int = 3
    rate: float | None = None
    nodes: int | list[int] = 1


def status_of(main):
    with pytest.raises(SystemExit) as caught:
        run_main(main)
    return caught.value.code


def test_run_main_gives_the_arguments_and_returns_the_status(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program", "a=1", "b"])
    seen = []
    assert status_of(lambda arguments: seen.extend(arguments)) == 0
    assert seen == ["a=1", "b"]
    assert status_of(lambda arguments: 75) == 75


def test_run_main_reports_a_users_mistake_in_one_message(capsys, monkeypatch):
    assert status_of(lambda arguments: topology.build("rinng", 4)) == 2
    assert capsys.readouterr().err.startswith("unknown topology 'rinng'; did you mean 'ring'?")
    monkeypatch.setenv("RANK", "3")
    assert status_of(lambda arguments: topology.build("rinng", 4)) == 2
    assert capsys.readouterr().err.startswith("[rank 3] unknown topology")


def test_run_main_keeps_the_traceback_of_a_bug():
    def bug(arguments):
        int("not a number")  # raised here, not by the project's own checks

    with pytest.raises(ValueError, match="invalid literal"):
        run_main(bug)
    with pytest.raises(ZeroDivisionError):
        run_main(lambda arguments: 1 // 0)


@pytest.fixture
def places(tmp_path):
    """Paths at which no file can be written, by what is wrong with them."""
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    return {
        "Not a directory": tmp_path / "file" / "out.json",
        "a folder or a device is there": tmp_path / "folder",
        "No such file or directory": Path("/proc/nothing/out.json"),
        "File name too long": tmp_path / ("n" * 300),
    }


def test_run_main_names_a_path_that_cannot_be_written(places, capsys, tmp_path):
    places |= {" Not a directory": tmp_path / "file" / "deep" / "out.json", " a folder or a device is there": Path("/")}
    for problem, path in places.items():
        assert status_of(lambda arguments, path=path: write_atomically(path, "new")) == 2
        assert capsys.readouterr().err == f"{path}: cannot be written ({problem.strip()})\n"
    assert (tmp_path / "file").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def test_what_is_no_file_is_not_replaced_by_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # as /dev/stdout may be one
    with pytest.raises(WrongPath, match="a folder or a device is there"):
        write_atomically(tmp_path / "pipe", "new")
    assert (tmp_path / "pipe").is_fifo()


def test_a_wrong_path_stays_a_failed_write_for_who_goes_on_without(places):
    for path in places.values():
        with pytest.raises(OSError, match="cannot be written"):
            write_atomically(path, "new")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failing_disk_is_no_mistake_and_leaves_nothing_behind(tmp_path, monkeypatch, number):
    def failing(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", failing)
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError) as caught:  # noqa: PT011
        run_main(lambda arguments: write_atomically(tmp_path / "file", "new"))
    assert (caught.value.errno, isinstance(caught.value, ValueError)) == (number, False)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "tables={file}/x", "figures={tmp}/f"],
        ["report", "tables={tmp}/t", "figures={file}"],
        ["report", "tables={tmp}/t", "figures={tmp}/f", "readme={tmp}/missing.md"],
        ["report", "tables={tmp}/t", "figures={tmp}/f", "readme={tmp}"],
        ["report", "tables={tmp}/t", "figures={tmp}/f", "readme=null", "html={tmp}"],
        ["topology", "name=ring", "world_size=4", "out={file}/b.png"],
        ["tables", "plan", "table=p/gpt2/dadam_aer", "runs={tmp}/runs", "out={file}/jobs.txt"],
        ["dashboard", "entity=team", "out={file}/d.json"],
    ],
    ids=lambda arguments: " ".join(text.partition("=")[0] for text in arguments),
)
def test_scripts_answer_a_wrong_output_path_with_one_message(arguments, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("kept")
    write(make_record(), tmp_path / "records" / "record.json")
    name, *given = [text.format(file=tmp_path / "file", tmp=tmp_path) for text in arguments]
    given += [f"records={tmp_path}/records"] if name == "report" else []
    if name == "dashboard":
        pytest.importorskip("wandb_workspaces")
    monkeypatch.setattr(sys, "argv", ["program", *given])
    assert status_of(importlib.import_module(f"scripts.{name}").main) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert str(tmp_path) in message
    assert "cannot be" in message
    assert (tmp_path / "file").read_text() == "kept"


MACHINE = "link_gbps=10 latency_us=5 nodes=2 local_size=2"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("tables plan table=p/gpt2 step_ms=-5", "step_ms=-5.0: must be above 0"),
        ("tables plan table=p/gpt2 step_ms=0", "step_ms=0.0: must be above 0"),
        ("tables plan table=p/gpt2 step_ms=.inf", "step_ms=inf: must be finite"),
        (f"advise compute_ms=1 parameters=0 {MACHINE}", "parameters=0.0: must be above 0"),
        (f"advise compute_ms=1 parameters=0M {MACHINE}", "parameters=0M: must be above 0"),
        (f"advise compute_ms=.inf parameters=1M {MACHINE}", "compute_ms=inf: must be finite"),
        (f"advise compute_ms=1 update_ms=.inf parameters=1M {MACHINE}", "update_ms=inf: must be finite"),
        ("topology name=ring world_size=4 bytes=0", "bytes=0.0: must be above 0"),
    ],
)
def test_scripts_refuse_numbers_out_of_range(command, says):
    name, *given = command.split()
    with pytest.raises(ValueError, match=f"^{says}"):
        importlib.import_module(f"scripts.{name}").main(given)


def test_run_main_ends_an_interrupt_with_130():
    def interrupted(arguments):
        raise KeyboardInterrupt

    assert status_of(interrupted) == 130


def test_run_main_takes_a_closed_pipe_quietly():
    talk = "from decent_core.config.command_line import run_main; run_main(lambda arguments: print('line\\n' * 10**6))"
    command = f'{sys.executable} -c "{talk}" | head -n 1'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.stdout, done.stderr) == ("line\n", "")


def test_options_read_values_as_their_types():
    given = options(Wanted, ["name=aer", "count=4", "rate=1e-3", "nodes=[4,2]"], "usage")
    assert given == Wanted("aer", 4, 1e-3, [4, 2])
    assert options(Wanted, ["name=two words", "rate=null"], "usage") == Wanted("two words")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["name=a", "cuont=1"], "cuont: no such key; did you mean count?"),
        (["name=a", "count=x"], 'count="x": input should be a valid integer'),
        (["count=1"], "name: a value is missing"),
        (["name"], "name: give options as key=value"),
        (["name=a", "name=b"], "name: given more than once"),
    ],
)
def test_options_name_what_is_wrong(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        options(Wanted, arguments, "usage")
    assert str(caught.value).startswith(message)


def test_options_help_lists_keys_and_defaults(capsys):
    with pytest.raises(SystemExit) as caught:
        options(Wanted, ["--help"], "How to use it.")
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith("How to use it.")
    assert "  count=3\n  rate=null\n" in shown


def entry_points() -> list[str]:
    """The scripts that a user runs."""
    found = (path.stem for path in (ROOT / "scripts").glob("*.py") if "run_main(main)" in path.read_text())
    return sorted(name for name in found if not name.endswith("_worker"))


@pytest.mark.parametrize("name", entry_points())
def test_every_script_explains_itself(name, capsys):
    main = importlib.import_module(f"scripts.{name}").main
    try:
        status = main(["--help"])
    except SystemExit as stopped:
        status = stopped.code
    assert not status
    assert f"-m scripts.{name}" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_named_too(places, capsys):
    assert status_of(lambda arguments: make_folder(places["Not a directory"])) == 2
    assert capsys.readouterr().err == f"{places['Not a directory']}: cannot be written (Not a directory)\n"
