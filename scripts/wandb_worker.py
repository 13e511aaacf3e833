"""Sends one training run to W&B: follows its metrics log, and attaches its record at the end.

Started by `scripts.logger`, not by hand. The first line of standard input says what to send; the end of standard input
says that the training process has ended, and the line before it where its record is, if it has left one.
"""

import fcntl
import json
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

POLL_SECONDS = 1.0
NICENESS = 10  # training goes first where cores are few
# Nothing is measured or collected beside what the run itself logs: it would cost time, and the record says it all.
QUIET = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "disable_code": True,
    "x_disable_stats": True,
    "x_disable_meta": True,
    "x_save_requirements": False,
}


def main() -> str | None:
    """Send a run from its beginning, or from where W&B has it, to its end; returns what the user should know."""
    import wandb  # takes a second or two, meanwhile the training process builds its model

    line = sys.stdin.readline()
    if not line:  # the run came to nothing
        return None
    job = json.loads(line)
    folder, seconds = Path(job["folder"]), job["timeout_seconds"]
    (folder / "wandb").mkdir(exist_ok=True)
    with open(folder / "wandb" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the process of an interrupted run may still be sending
        for name in ("CACHE", "DATA"):
            os.environ[f"WANDB_{name}_DIR"] = str(folder / "wandb" / "cache")
        settings = wandb.Settings(**QUIET, init_timeout=seconds, finish_timeout=seconds)
        start = partial(wandb.init, dir=str(folder), resume="allow", settings=settings)
        run, problem = _start(start, wandb.teardown, job["run"])
        _remove_superseded(folder / "wandb", run)
        rest = _send(run, folder / "metrics.jsonl")
        signal.setitimer(signal.ITIMER_REAL, seconds + POLL_SECONDS)  # ends this process, whatever W&B waits for
        _finish(run, rest, sys.stdin.read())
    return problem


def _start(start: Callable, teardown: Callable, wanted: dict[str, Any]) -> tuple[Any, str | None]:
    """The W&B run; an offline one, and why, if the server cannot be reached."""
    try:
        return start(**wanted), None
    except Exception as error:  # W&B has many kinds, and a server many ways to refuse
        if wanted["mode"] == "offline":
            raise
        teardown()  # the id stays in use otherwise
        run = start(**wanted | {"mode": "offline"})
        return run, f"{describe(error)}; the run is kept offline, for wandb sync {Path(run.dir).parent}"


def _send(run: Any, path: Path) -> dict[str, Any]:
    """Send the log, one row a step, after the last one that the server has.

    Returns the last row: if training was killed it may lack values, and W&B takes a step only once.
    """
    first, row = run.step, dict[str, Any]()
    for values in follow(path):
        if values["step"] < first:
            continue
        if row and values["step"] != row["step"]:
            _log(run, row)
            row = {}
        row |= values
    return row


def _log(run: Any, row: dict[str, Any]) -> None:
    values = {key: value for key, value in row.items() if key not in ("kind", "step") and value is not None}
    run.log(values, step=row["step"], commit=True)


def follow(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a metrics log as they are written, until the training process has ended and all are read."""
    position, ended = 0, False
    while not ended:
        ended = bool(select.select([sys.stdin], [], [], POLL_SECONDS)[0])
        if not path.exists():
            continue
        with open(path) as stream:
            stream.seek(position)
            while (line := stream.readline()).endswith("\n"):
                position = stream.tell()
                yield json.loads(line)


def _remove_superseded(folder: Path, run: Any) -> None:
    """A continued run is sent from its beginning again: files of its earlier, interrupted part would double it."""
    for path in folder.glob(f"offline-run-*-{run.id}"):
        if path.resolve() != Path(run.dir).resolve().parent:
            shutil.rmtree(path)


def _finish(run: Any, row: dict[str, Any], record_path: str) -> None:
    """Attach the record as a file and as the summary; without one, the run was killed."""
    if not record_path:
        run.finish(exit_code=1)
        return
    if row:
        _log(run, row)
    copy = shutil.copy(json.loads(record_path), run.dir)
    record = json.loads(Path(copy).read_text())
    run.save(copy, base_path=run.dir, policy="now")
    plain = {key: value for key, value in record.items() if value is not None and not isinstance(value, list | dict)}
    finite = {key: value for key, value in record["metrics"].items() if value is not None}
    run.summary.update({**plain, **finite, "best": record["best"]})
    run.finish(exit_code=0 if record["status"] == "ok" else 1)


def describe(error: Exception) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".")


def run_quietly() -> int:
    """`main`; to standard output goes what the user should know, and nothing of what W&B or its processes print."""
    answer = os.dup(1)  # not inherited: its reader would wait for W&B's own processes too
    os.dup2(2, 1)
    try:
        problem = main()
    except Exception as error:  # noqa: BLE001  (whatever W&B raises is one line to the training process, and no more)
        problem = describe(error)
    os.write(answer, (problem or "").encode())
    return 0


if __name__ == "__main__":
    os.nice(NICENESS)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):  # they are for the training process
        signal.signal(number, signal.SIG_IGN)
    sys.exit(run_quietly())
