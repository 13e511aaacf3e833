"""Training runs as child processes: several at once, watched, stopped and started again without loss."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from decent_core.clock import TimeLeft, readable
from decent_core.record import MetricsLog, read

POLL_SECONDS = 0.2
LINE_SECONDS = 15  # between progress lines in a job log
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
        """Whether there is nothing left to run."""
        return self.outcome() == "ok"

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
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".reproduce.lock", "w") as lock, open(self.log, "a") as log:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            return subprocess.Popen(
                [sys.executable, "-m", "scripts.train", *self.overrides, f"out={self.folder}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                pass_fds=[lock.fileno()],
                start_new_session=True,
            )


def run_children(children: Sequence[Child], jobs: int) -> list[Child]:
    """Run those that are not finished, at most `jobs` at once; returns those that failed.

    On KeyboardInterrupt and on stop signals, the running ones are asked to save a checkpoint and end.
    """
    waiting = [child for child in children if not child.finished()]
    running: dict[Child, subprocess.Popen] = {}
    failed: list[Child] = []
    with _stop_signals_interrupt(), _Display(children) as display:
        try:
            while waiting or running:
                for child in [child for child, process in running.items() if process.poll() is not None]:
                    status = running.pop(child).returncode
                    if not child.finished():
                        failed.append(child)
                        display.say(f"{child.name}: failed with exit status {status}")
                for child in list(waiting):
                    if child.finished():  # by another `reproduce`
                        waiting.remove(child)
                    elif len(running) < jobs and (process := child.start()) is not None:
                        waiting.remove(child)
                        running[child] = process
                display.update(list(running))
                time.sleep(POLL_SECONDS)
        finally:
            _stop(list(running.values()), display)
    return failed


def _stop(processes: Sequence[subprocess.Popen], display: "_Display") -> None:
    """Ask for checkpoints, then wait; what does not end in time is killed."""
    alive = [process for process in processes if process.poll() is None]
    if alive:
        display.say(f"stopping {len(alive)} runs; they save a checkpoint, and the next start continues from it")
    for process in alive:
        process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for process in alive:
        try:
            process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _stop_signals_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Display:
    """Progress of all runs together: bars on a terminal, a line now and then in a job log; on standard error."""

    def __init__(self, children: Sequence[Child]):
        self.children = children
        self.total = sum(child.steps for child in children)
        self.done = {child: child.steps_done() for child in children}
        self.left = TimeLeft(sum(self.done.values()))
        self.console = Console(stderr=True)
        self.next_line = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self.bars = Progress(*columns, console=self.console) if self.console.is_terminal else None
        self.rows: dict[Child, Any] = {}

    def __enter__(self) -> "_Display":
        if self.bars is not None:
            self.bars.start()
            self.overall = self.bars.add_task("all runs", total=self.total, note="")
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bars is not None:
            self.bars.stop()

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)

    def update(self, running: Sequence[Child]) -> None:
        """Look at the running children's logs and show how far they are."""
        ended = [child for child in self.rows if child not in running]
        for child in {*running, *ended}:
            self.done[child] = child.steps_done()
        done = sum(self.done.values())
        left = f"{readable(self.left.seconds(done, self.total))} left"
        if self.bars is None:
            self._line(running, done, left)
            return
        for child in ended:
            self.bars.remove_task(self.rows.pop(child))
        for child in running:
            if child not in self.rows:
                self.rows[child] = self.bars.add_task(child.name, total=child.steps, note="")
            self.bars.update(self.rows[child], completed=self.done[child])
        finished = sum(self.done[child] == child.steps for child in self.children)
        note = f"steps, {finished} of {len(self.children)} runs finished, {left}"
        self.bars.update(self.overall, completed=done, note=note)

    def _line(self, running: Sequence[Child], done: int, left: str) -> None:
        if time.monotonic() >= self.next_line and running:
            self.next_line = time.monotonic() + LINE_SECONDS
            each = ", ".join(f"{child.name} {self.done[child]}/{child.steps}" for child in running)
            self.say(f"{100 * done / self.total:.0f} % of all steps done, {left}; running: {each}")
