"""Runs in processes of their own: several at once, watched, stopped and started again without loss."""

import subprocess
import time
from collections.abc import Sequence

from decent_core.display.runs import RunsDisplay
from decent_core.system.processes import stop_all, stop_signals_interrupt
from decent_core.tables.planned_run import PlannedRun

POLL_SECONDS = 0.2
STOP_SECONDS = 60  # for a stopped run to write its checkpoint


def run_all(runs: Sequence[PlannedRun], jobs: int) -> list[PlannedRun]:
    """Run those that are not finished, at most `jobs` at once; returns those that failed.

    On KeyboardInterrupt and on stop signals, the running ones are asked to save a checkpoint and end. ValueError for
    fewer than 1 job.
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs}: at least 1 run at once is needed")
    waiting = [run for run in runs if not run.finished()]
    running: dict[PlannedRun, subprocess.Popen] = {}
    failed: list[PlannedRun] = []
    done = {run.name: run.steps_done() for run in runs}
    with stop_signals_interrupt(), RunsDisplay({run.name: run.steps for run in runs}) as display:
        try:
            while waiting or running:
                for run in [run for run, process in running.items() if process.poll() is not None]:
                    status = running.pop(run).returncode
                    if not run.finished():
                        failed.append(run)
                        display.say(f"{run.name}: failed with exit status {status}")
                if len(running) < jobs:
                    # another `reproduce` may have run them, or be running them
                    waiting = [run for run in waiting if not run.finished()]
                    done |= {run.name: run.steps_done() for run in runs if done[run.name] < run.steps}
                    for run in waiting:
                        if len(running) < jobs and (process := run.start()) is not None:
                            running[run] = process
                    waiting = [run for run in waiting if run not in running]
                done |= {run.name: run.steps_done() for run in running}
                display.update(done, [run.name for run in running])
                time.sleep(POLL_SECONDS)
        finally:
            _stop(list(running.values()), display)
    return failed


def _stop(processes: Sequence[subprocess.Popen], display: RunsDisplay) -> None:
    """Ask for checkpoints, then wait."""
    alive = [process for process in processes if process.poll() is None]
    if alive:
        display.say(f"stopping {len(alive)} runs; they save a checkpoint, and the next start continues from it")
    stop_all(alive, STOP_SECONDS)
