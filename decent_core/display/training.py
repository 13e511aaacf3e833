"""What a training run shows: a progress bar on a terminal, a line an interval in a job log."""

from typing import Any

from decent_core.display.bars import Bars
from decent_core.display.times import TimeLeft, readable


class TrainingDisplay:
    """Shows the log of one run on rank 0; the other ranks are silent."""

    def __init__(self, title: str, steps: int, done: int, shown: bool):
        self.title, self.steps = title, steps
        self.time_left = TimeLeft({title: steps})
        self.bars = Bars("steps", shown)
        self._left(done)
        self.bars.show(title, done, steps)

    def __call__(self, values: dict[str, Any]) -> None:
        """Show one entry of the training log."""
        step, text = values["step"], _describe(values)
        left = self._left(step)
        if not self.bars.on_terminal:
            self.say(f"step {step}/{self.steps}  {text}  left {left}")
        elif values["kind"] == "train":
            self.bars.show(self.title, step, self.steps, f"{text}  left {left}")
        else:
            self.say(f"step {step}: {text}")

    def say(self, text: str) -> None:
        """Show one line."""
        self.bars.say(text)

    def close(self) -> None:
        """Give the terminal back."""
        self.bars.close()

    def _left(self, step: int) -> str:
        return readable(self.time_left.seconds({self.title: step}, [self.title]))


def _describe(values: dict[str, Any]) -> str:
    if values["kind"] == "train":
        return (
            f"loss {values['train_loss']:.4f}  lr {values['lr']:.2e}  {values['step_ms']:.0f} ms/step"
            f"  wait {values['wait_ms']:.1f} ms  {values['samples_per_second']:.0f} samples/s"
        )
    return "  ".join(
        f"{name} {value:.4g}" for name, value in values.items() if name not in ("kind", "step", "train_seconds")
    )
