"""How far several runs are: bars on a terminal, a line now and then in a job log; on standard error."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from decent_core.display.times import RunsLeft, readable

LINE_SECONDS = 15  # between the lines of a job log


class Display:
    """Shows runs by name; `steps` is what each has to do in all."""

    def __init__(self, steps: Mapping[str, int]):
        self.steps, self.total = steps, sum(steps.values())
        self.left = RunsLeft(steps)
        self.console = Console(stderr=True)
        self.next_line = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self.bars = Progress(*columns, console=self.console) if self.console.is_terminal else None
        self.rows: dict[str, TaskID] = {}

    def __enter__(self) -> "Display":
        if self.bars is not None:
            self.bars.start()
            self.overall = self.bars.add_task("all runs", total=self.total, note="")
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bars is not None:
            self.bars.stop()

    def say(self, text: str) -> None:
        """Show one line."""
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)

    def update(self, done: Mapping[str, int], running: Sequence[str]) -> None:
        """Show the steps that each run has done by now."""
        left = f"{readable(self.left.seconds(done, running))} left"
        if self.bars is None:
            self._line(done, running, left)
        else:
            self._bars(self.bars, done, running, left)

    def _bars(self, bars: Progress, done: Mapping[str, int], running: Sequence[str], left: str) -> None:
        for name in [name for name in self.rows if name not in running]:
            bars.remove_task(self.rows.pop(name))
        for name in running:
            if name not in self.rows:
                self.rows[name] = bars.add_task(name, total=self.steps[name], note="")
            bars.update(self.rows[name], completed=done[name])
        finished = sum(done[name] == steps and name not in running for name, steps in self.steps.items())
        note = f"steps, {finished} of {len(self.steps)} runs finished, {left}"
        bars.update(self.overall, completed=sum(done.values()), note=note)

    def _line(self, done: Mapping[str, int], running: Sequence[str], left: str) -> None:
        if running and time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + LINE_SECONDS
            each = ", ".join(f"{name} {done[name]}/{self.steps[name]}" for name in running)
            self.say(f"{100 * sum(done.values()) / self.total:.0f} % of all steps done, {left}; running: {each}")
