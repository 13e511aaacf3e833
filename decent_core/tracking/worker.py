"""Sends one training run to a dashboard: follows its metrics log, and attaches its record at the end.

Started by `decent_core.tracking.logger`, not by hand. Of standard input, the first line holds the settings and the
second what the run is; it ends with the training process, after a line with the path of its record if it has left one.
What is sent is decided here; `wandb_run` and `trackio_run` know the two packages.
"""

import fcntl
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decent_core.system.files import open_lock
from decent_core.tracking.dashboard_run import DashboardRun, one_line
from decent_core.tracking.trackio_run import TrackioRun
from decent_core.tracking.wandb_run import WandbRun

POLL_SECONDS = 1.0
NICENESS = 10  # training goes first where cores are few
RUNS: dict[str, type[DashboardRun]] = {"wandb": WandbRun, "trackio": TrackioRun}


def main() -> str | None:
    """Send a run from where the dashboard has it to its end; returns what the user should know."""
    job = json.loads(sys.stdin.readline())
    os.chdir(job["cwd"])
    folder, settings = Path(job["folder"]), job["settings"]
    # The package takes a second or two to import, meanwhile the training process builds its model.
    run = RUNS[settings["name"]](folder, settings)
    line = sys.stdin.readline()
    if not line:  # the run came to nothing
        return None
    (folder / settings["name"]).mkdir(exist_ok=True)
    with open_lock(folder / settings["name"] / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the process of an interrupted run may still be sending
        problem = run.start(json.loads(line))
        rest = _send(run, folder / "metrics.jsonl")
        # Ends this process, whatever the dashboard waits for.
        signal.setitimer(signal.ITIMER_REAL, settings["timeout_seconds"] + POLL_SECONDS)
        _finish(run, rest, sys.stdin.read())
    return problem


def _send(run: DashboardRun, path: Path) -> dict[str, Any]:
    """Send the log, one row a step, after the last one that the dashboard has.

    Returns the last row: if training was killed it may lack values, and a step is sent only once.
    """
    first, row = run.first, dict[str, Any]()
    for values in follow(path):
        if values["step"] < first:
            continue
        if row and values["step"] != row["step"]:
            _log(run, row)
            row = {}
        row |= values
    return row


def _log(run: DashboardRun, row: dict[str, Any]) -> None:
    values = {key: value for key, value in row.items() if key not in ("kind", "step") and value is not None}
    run.log(row["step"], values)


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


def _finish(run: DashboardRun, row: dict[str, Any], said: str) -> None:
    """Attach the record as a file and as the summary; without one, the run was killed."""
    path = json.loads(said) if said.strip() else None
    if path is None:
        run.finish(None, {})
        return
    if row:
        _log(run, row)
    record = json.loads(Path(path).read_text())
    plain = {key: value for key, value in record.items() if value is not None and not isinstance(value, list | dict)}
    finite = {key: value for key, value in record["metrics"].items() if value is not None}
    run.finish(Path(path), {**plain, **finite, "best": record["best"]})


def run_quietly() -> int:
    """`main`; standard output is for what it returns alone: dashboards print too, and so do their processes."""
    answer = os.dup(1)  # not inherited: its reader would wait for W&B's own processes too
    os.dup2(2, 1)
    try:
        problem = main()
    except Exception as error:  # noqa: BLE001  (whatever a dashboard raises is one line to the training process)
        problem = one_line(error)
    os.write(answer, (problem or "").encode())
    return 0


if __name__ == "__main__":
    os.nice(NICENESS)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):  # they are for the training process
        signal.signal(number, signal.SIG_IGN)
    sys.exit(run_quietly())
