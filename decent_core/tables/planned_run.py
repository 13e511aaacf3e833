"""One training run that a table asks for: its overrides, its folder, and whether it is finished."""

import fcntl
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from decent_core.records.record import Record, read
from decent_core.records.step_log import MetricsLog
from decent_core.system.files import make_folder, naming, open_lock

LOG_TAIL = 15


@dataclass(frozen=True)
class PlannedRun:
    """A run, and how to tell that the record in its folder is the one that is wanted."""

    name: str
    overrides: tuple[str, ...]
    folder: Path
    config_hash: str
    steps: int

    @property
    def record(self) -> Path:
        return self.folder / "record.json"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def outcome(self) -> str | None:
        """Status in the record of this very configuration; None if there is none."""
        record = self._own_record()
        return None if record is None else record.status

    def finished(self) -> bool:
        """Whether the record of this very configuration is there, and says that nothing is left to run."""
        record = self._own_record()
        return record is not None and record.finished

    def _own_record(self) -> Record | None:
        try:
            record = read(self.record)
        except ValueError:
            return None
        return record if record.config_hash == self.config_hash else None

    def steps_done(self) -> int:
        """Steps as far as the run has logged them."""
        if self.finished():
            return self.steps
        lines = MetricsLog(self.folder / "metrics.jsonl").lines()
        return lines[-1]["step"] if lines else 0

    def log_tail(self) -> str:
        """The last lines of what the run has printed."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-LOG_TAIL:])

    def start(self) -> subprocess.Popen | None:
        """Start it with one thread; None if another process has it under way.

        The new process inherits the lock on its folder, which so lasts as long as it does, whatever becomes of us. It
        is in a session of its own: Ctrl-C reaches us alone, and we ask it to stop.
        """
        make_folder(self.folder)
        path = self.folder / ".reproduce.lock"
        with naming(path):
            lock = open_lock(path)
        with lock, open(self.log, "a") as log:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            return subprocess.Popen(
                [sys.executable, "-m", "scripts.train", *self.overrides, f"out={quoted(self.folder)}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                pass_fds=[lock.fileno()],
                start_new_session=True,
            )


def quoted(path: Path) -> str:
    """A path as an override's value, whatever characters it has."""
    text = str(path).replace("'", "\\'")
    return f"'{text}'"
