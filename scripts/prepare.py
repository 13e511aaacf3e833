"""Prepares the data of a task at a scale; started again after a kill, it continues where it stopped.

python -m scripts.prepare task=gpt2 scale=paper
python -m scripts.prepare task=gpt2 scale=paper task.dataset=FOLDER   # .parquet or .jsonl files with a column `text`
"""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from decent_core.config.command_line import run_main
from decent_core.display.times import TimeLeft, readable

LINE_SECONDS = 10.0  # between two lines of a job log


class Display:
    """How far a preparation is: a bar on a terminal, a line now and then otherwise; on standard error."""

    def __init__(self) -> None:
        self._left: TimeLeft | None = None
        self._next_line = 0.0
        self._bar: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` parts (documents, pairs, files) are prepared."""
        if self._left is None:
            self._left = TimeLeft(done)
            self._start_bar(done, total)
        if self._bar is not None:
            self._bar.update(self._row, completed=done)
        elif done == total or time.monotonic() >= self._next_line:
            left = readable(self._left.seconds(done, total))
            print(f"{done:,}/{total:,} done  left {left}", file=sys.stderr, flush=True)
            self._next_line = time.monotonic() + LINE_SECONDS

    def close(self) -> None:
        """Give the terminal back."""
        if self._bar is not None:
            self._bar.stop()

    def _start_bar(self, done: int, total: int) -> None:
        if sys.stderr.isatty():
            columns = [BarColumn(), MofNCompleteColumn(), TextColumn("parts"), TimeElapsedColumn()]
            self._bar = Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True))
            self._row = self._bar.add_task("", total=total, completed=done)
            self._bar.start()


def main(arguments: list[str]) -> None:
    """Prepare what the configuration's task needs and say what is there."""
    # not at the top: each tokenising process imports this file, and would import torch
    from decent_core.config.help import wanted_help
    from decent_core.config.load import load
    from decent_core.config.task_package import import_task

    if wanted_help(arguments, __doc__):
        return
    config = load(arguments)
    display = Display()
    try:
        summary = import_task(config.task_package).prepare(config.task, display)
    finally:
        display.close()
    print(summary)


if __name__ == "__main__":
    run_main(main)
