"""Progress as bars on a terminal and as lines in a job log, nothing of either on other ranks."""

import io

import pytest

from decent_core.display.bars import Bars
from decent_core.display.preparation import PreparationDisplay
from decent_core.display.runs import RunsDisplay
from decent_core.display.training import TrainingDisplay

TRAIN = {"kind": "train", "step": 5, "train_loss": 1.5, "lr": 0.1, "step_ms": 2.0, "wait_ms": 0.5,
         "samples_per_second": 9.0}  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A function that makes standard error a terminal; pytest changes it between a fixture and its test."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")

    def become():
        stream = Terminal()
        monkeypatch.setattr("sys.stderr", stream)
        return stream

    return become


def test_a_job_log_gets_a_line_for_every_entry_of_the_training_log(capsys):
    display = TrainingDisplay("a-run", 10, 0, shown=True)
    display(TRAIN)
    display({"kind": "eval", "step": 5, "val_loss": 2.25, "train_seconds": 3.0})
    display.say("a line [with brackets] and a :snake:")
    display.close()
    first, second, third = capsys.readouterr().err.splitlines()
    assert first.startswith("step 5/10  loss 1.5000  lr 1.00e-01  2 ms/step  wait 0.5 ms  9 samples/s  left ")
    assert second.startswith("step 5/10  val_loss 2.25  left ")
    assert third == "a line [with brackets] and a :snake:"


def test_other_ranks_are_silent(capsys):
    display = TrainingDisplay("a-run", 10, 0, shown=False)
    display(TRAIN)
    display.say("nothing")
    display.close()
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_with_its_note_and_lines_between(terminal):
    stream = terminal()
    display = TrainingDisplay("a-run", 10, 0, shown=True)
    display(TRAIN)
    display({"kind": "eval", "step": 5, "val_loss": 2.25, "train_seconds": 3.0})
    display.close()
    shown = stream.getvalue()
    assert "step 5: val_loss 2.25" in shown
    assert "5/10" in shown
    assert "loss 1.5000" in shown


def test_runs_that_are_not_running_have_no_bar(terminal):
    stream = terminal()
    with RunsDisplay({"first[x]": 4, "second": 4}) as display:
        display.update({"first[x]": 1, "second": 0}, ["first[x]"])
        display.update({"first[x]": 4, "second": 2}, ["second"])
        assert display.bars._rows.keys() == {"all runs", "second"}
    assert "first[x]" in stream.getvalue(), "names are text, not markup"
    assert "1 of 2 runs finished" in stream.getvalue()


def test_a_job_log_hears_of_runs_now_and_then(capsys):
    with RunsDisplay({"first": 4, "second": 4}) as display:
        for done in range(3):
            display.update({"first": done, "second": 0}, ["first"])
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["0 % of all steps done, ? left; running: first 0/4"], "once within the first seconds"


def test_preparation_says_its_start_and_its_end(capsys):
    display = PreparationDisplay()
    for done in (0, 400, 1000):
        display(done, 1000)
    display.close()
    first, last = capsys.readouterr().err.splitlines()
    assert first == "0/1,000 done  left ?"
    assert last == "1,000/1,000 done  left 0:00"


def test_lines_are_due_once_an_interval():
    bars = Bars("steps")
    assert bars.line_is_due(60)
    assert not bars.line_is_due(60)
    assert bars.line_is_due(0) is False, "the interval that was asked for first lasts"
