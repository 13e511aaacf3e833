"""How far several runs are: a bar for each that is running and one for all, or a line now and then."""

from collections.abc import Mapping, Sequence
from typing import Any

from decent_core.display.bars import Bars
from decent_core.display.times import TimeLeft, readable

LINE_SECONDS = 15.0  # between the lines of a job log
ALL = "all runs"


class RunsDisplay:
    """Shows runs by name; `steps` is what each has to do in all."""

    def __init__(self, steps: Mapping[str, int]):
        self.steps, self.total = steps, sum(steps.values())
        self.time_left = TimeLeft(steps)
        self.bars = Bars("steps")

    def __enter__(self) -> "RunsDisplay":
        return self

    def __exit__(self, *_: Any) -> None:
        self.bars.close()

    def say(self, text: str) -> None:
        """Show one line."""
        self.bars.say(text)

    def update(self, done: Mapping[str, int], running: Sequence[str]) -> None:
        """Show the steps that each run has done by now."""
        left = f"{readable(self.time_left.seconds(done, running))} left"
        finished = sum(done[name] == steps and name not in running for name, steps in self.steps.items())
        self.bars.hide_all_but({ALL, *running})
        self.bars.show(ALL, sum(done.values()), self.total, f"{finished} of {len(self.steps)} runs finished, {left}")
        for name in running:
            self.bars.show(name, done[name], self.steps[name])
        if running and self.bars.line_is_due(LINE_SECONDS):
            each = ", ".join(f"{name} {done[name]}/{self.steps[name]}" for name in running)
            self.say(f"{100 * sum(done.values()) / self.total:.0f} % of all steps done, {left}; running: {each}")
