"""How far the preparation of data is."""

from decent_core.display.bars import Bars
from decent_core.display.times import TimeLeft, readable

LINE_SECONDS = 10.0  # between the lines of a job log
NAME = "prepared"


class PreparationDisplay:
    """Called with the parts (documents, pairs, files) that are prepared, and with how many there are in all."""

    def __init__(self) -> None:
        self.bars = Bars("parts")
        self.time_left: TimeLeft | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` parts are prepared."""
        if self.time_left is None:
            self.time_left = TimeLeft({NAME: total})
        left = readable(self.time_left.seconds({NAME: done}, [NAME]))
        self.bars.show(NAME, done, total, f"left {left}")
        if self.bars.line_is_due(LINE_SECONDS) or (done == total and not self.bars.on_terminal):
            self.bars.say(f"{done:,}/{total:,} done  left {left}")

    def close(self) -> None:
        """Give the terminal back."""
        self.bars.close()
