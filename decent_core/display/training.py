"""What a training run shows, on stderr: a progress bar on a terminal, a line an interval in a job log."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from decent_core.display.times import TimeLeft, readable


class TrainingDisplay:
    """Shows the log of one run on rank 0; the other ranks are silent."""

    def __init__(self, title: str, steps: int, done: int, shown: bool):
        self.title, self.steps, self.shown = title, steps, shown
        self.time_left = TimeLeft(done)
        self.bar: Progress | None = None
        if shown and sys.stderr.isatty():
            columns = [
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
            ]
            details = [
                TextColumn("{task.fields[detail]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            ]
            self.bar = Progress(*columns, *details, console=Console(stderr=True))
            self.row = self.bar.add_task(title, total=steps, completed=done, detail="")
            self.bar.start()

    def __call__(self, values: dict[str, Any]) -> None:
        """Show one entry of the training log."""
        if not self.shown:
            return
        text = _describe(values)
        if self.bar is None:
            left = readable(self.time_left.seconds(values["step"], self.steps))
            self.say(f"step {values['step']}/{self.steps}  {text}  left {left}")
        elif values["kind"] == "train":
            self.bar.update(self.row, completed=values["step"], detail=text)
        else:
            self.bar.console.print(f"step {values['step']}: {text}", highlight=False)

    def say(self, text: str) -> None:
        """Show one line."""
        if self.shown:
            print(text, file=sys.stderr, flush=True) if self.bar is None else self.bar.console.print(
                text, highlight=False
            )

    def close(self) -> None:
        """Give the terminal back."""
        if self.bar is not None:
            self.bar.stop()


def _describe(values: dict[str, Any]) -> str:
    if values["kind"] == "train":
        return (
            f"loss {values['train_loss']:.4f}  lr {values['lr']:.2e}  {values['step_ms']:.0f} ms/step"
            f"  wait {values['wait_ms']:.1f} ms  {values['samples_per_second']:.0f} samples/s"
        )
    return "  ".join(
        f"{name} {value:.4g}" for name, value in values.items() if name not in ("kind", "step", "train_seconds")
    )
