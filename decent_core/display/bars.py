"""Progress on standard error: bars on a terminal, lines in a job log."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column


class Bars:
    """Bars by name, each with a note, and lines of text between them; without a terminal there are only lines.

    Not `shown`: nothing is printed, as on all ranks but the first.
    """

    def __init__(self, unit: str, shown: bool = True):
        self.console = Console(stderr=True, quiet=not shown, emoji=False)
        self._bars: Progress | None = None
        self._rows: dict[str, TaskID] = {}
        self._next_line = 0.0
        if shown and self.console.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
                BarColumn(bar_width=20, table_column=Column(no_wrap=True)),
                MofNCompleteColumn(table_column=Column(no_wrap=True)),
                TextColumn(unit, table_column=Column(no_wrap=True)),
                TextColumn("{task.fields[note]}", markup=False, table_column=Column(ratio=1)),  # the one that may wrap
            )
            self._bars = Progress(*columns, console=self.console)
            self._bars.start()

    @property
    def on_terminal(self) -> bool:
        """Whether there are bars."""
        return self._bars is not None

    def say(self, text: str) -> None:
        """Show one line."""
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)

    def show(self, name: str, done: int, total: int, note: str = "") -> None:
        """Move the bar of this name, or make it."""
        if self._bars is not None:
            if name not in self._rows:
                self._rows[name] = self._bars.add_task(name, total=total, note=note)
            self._bars.update(self._rows[name], completed=done, note=note)

    def hide_all_but(self, names: set[str]) -> None:
        """Remove the other bars."""
        if self._bars is not None:
            for name in self._rows.keys() - names:
                self._bars.remove_task(self._rows.pop(name))

    def line_is_due(self, every_seconds: float) -> bool:
        """Whether a job log wants another line about progress; if so, the next is due that much later."""
        if self.on_terminal or time.monotonic() < self._next_line:
            return False
        self._next_line = time.monotonic() + every_seconds
        return True

    def close(self) -> None:
        """Give the terminal back."""
        if self._bars is not None:
            self._bars.stop()
