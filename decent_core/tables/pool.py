"""Training runs as child processes: several at once, watched, stopped and started again without loss."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decent_core.display.runs import Display
from decent_core.records.record import read
from decent_core.records.step_log import MetricsLog
from decent_core.system.files import make_folder
from decent_core.system.processes import stop_all, stop_signals_interrupt

POLL_SECONDS = 0.2
STOP_SECONDS = 60  # for a stopped run to write its checkpoint
LOG_TAIL = 15


@dataclass(frozen=True)
class Child:
    """One training run: its overrides, its folder, and how to tell that its record is the one that is wanted."""

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
        try:
            record = read(self.record)
        except ValueError:
            return None
        return record.status if record.config_hash == self.config_hash else None

    def finished(self) -> bool:
        """Whether there is nothing left to run; a run that diverged would diverge again."""
        return self.outcome() in ("ok", "diverged")

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
        """Start it with one thread; None if another `reproduce` has it under way.

        The child inherits the lock on its folder, which so lasts as long as the child, whatever becomes of us. It is in
        a session of its own: Ctrl-C reaches us alone, and we ask it to stop.
        """
        make_folder(self.folder)
        with open(self.folder / ".reproduce.lock", "w") as lock, open(self.log, "a") as log:
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


def run_children(children: Sequence[Child], jobs: int) -> list[Child]:
    """Run those that are not finished, at most `jobs` at once; returns those that failed.

    On KeyboardInterrupt and on stop signals, the running ones are asked to save a checkpoint and end. ValueError for
    fewer than 1 job.
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs}: at least 1 run at once is needed")
    waiting = [child for child in children if not child.finished()]
    running: dict[Child, subprocess.Popen] = {}
    failed: list[Child] = []
    done = {child.name: child.steps_done() for child in children}
    with stop_signals_interrupt(), Display({child.name: child.steps for child in children}) as display:
        try:
            while waiting or running:
                for child in [child for child, process in running.items() if process.poll() is not None]:
                    status = running.pop(child).returncode
                    if not child.finished():
                        failed.append(child)
                        display.say(f"{child.name}: failed with exit status {status}")
                if len(running) < jobs:
                    # another `reproduce` may have run them, or be running them
                    waiting = [child for child in waiting if not child.finished()]
                    done |= {child.name: child.steps_done() for child in children if done[child.name] < child.steps}
                    for child in waiting:
                        if len(running) < jobs and (process := child.start()) is not None:
                            running[child] = process
                    waiting = [child for child in waiting if child not in running]
                done |= {child.name: child.steps_done() for child in running}
                display.update(done, [child.name for child in running])
                time.sleep(POLL_SECONDS)
        finally:
            _stop(list(running.values()), display)
    return failed


def _stop(processes: Sequence[subprocess.Popen], display: Display) -> None:
    """Ask for checkpoints, then wait."""
    alive = [process for process in processes if process.poll() is None]
    if alive:
        display.say(f"stopping {len(alive)} runs; they save a checkpoint, and the next start continues from it")
    stop_all(alive, STOP_SECONDS)
