"""What `decent_core.tracking.worker` asks of a dashboard."""

from pathlib import Path
from typing import Any, Protocol


class DashboardRun(Protocol):
    """One run in a dashboard; any call may raise whatever it likes, or never return."""

    def __init__(self, folder: Path, settings: dict[str, Any]):
        """Import the dashboard's package, for the training run in `folder` and with the settings of its logger."""

    @property
    def first(self) -> int:
        """The first step that the dashboard does not have yet."""

    def start(self, described: dict[str, Any]) -> str | None:
        """Begin the run, or take it up again; returns what the user should know."""

    def log(self, step: int, values: dict[str, Any]) -> None:
        """All values of one step; steps come in order, and each once."""

    def finish(self, record: Path | None, summary: dict[str, Any]) -> None:
        """End the run, with its record and what stands for it in a table of runs; None: the training was killed."""


def one_line(error: Exception) -> str:
    """An error with its kind."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".")
