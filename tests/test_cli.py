import importlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from decent_core import topology
from scripts.command.cli import options, run_main

ROOT = Path(__file__).parent.parent


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


def test_run_main_ends_an_interrupt_with_130():
    def interrupted(arguments):
        raise KeyboardInterrupt

    assert status_of(interrupted) == 130


def test_run_main_takes_a_closed_pipe_quietly():
    talk = "from scripts.command.cli import run_main; run_main(lambda arguments: print('line\\n' * 10**6))"
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
