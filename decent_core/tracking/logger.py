"""The process that sends a run to a dashboard, beside its own `metrics.jsonl` and record.

W&B or trackio lives in a process of its own (`decent_core.tracking.worker`), which follows the metrics log. Training
only starts it and says at the end where the record is, so whatever the dashboard does or fails to do reaches neither
the numbers nor the steps.
"""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decent_core.config.logger_settings import Dashboard, LoggerSettings
from decent_core.records.identity import item_of
from decent_core.records.provenance import ROOT
from decent_core.system.files import write_atomically

CLOSE_SECONDS = 5.0  # for the process to end, beyond what the dashboard is given


class LoggerProcess:
    """The process that sends one run; without a dashboard in `settings` there is none, and nothing happens.

    A failure of any kind is said once, on one line, and is never raised.
    """

    def __init__(self, settings: LoggerSettings, folder: Path):
        self.settings, self.folder = settings, folder.resolve()
        self.record: Path | None = None  # the run's record, once it is written
        self.process: subprocess.Popen[str] | None = None
        self.problem: str | None = None
        if isinstance(settings, Dashboard):
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "decent_core.tracking.worker"],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    encoding="utf-8",
                    errors="replace",
                    start_new_session=True,  # Ctrl-C is for the training, which then says where its record is
                )
            except OSError as error:
                self.problem = str(error)
            else:
                self._tell({"cwd": os.getcwd(), "folder": str(self.folder), "settings": asdict(settings)})

    def begin(self, run_id: str, config: dict[str, Any], anew: bool) -> None:
        """Start sending; the metrics log holds what the run continues from. `anew`: not the dashboard's earlier run."""
        if self.process is None or not isinstance(self.settings, Dashboard):
            return
        try:
            name = _stable_id(self.folder / self.settings.name / "id", run_id, anew)
        except OSError as error:
            self.problem = str(error)
            self._end()
            return
        self._tell({"id": name, **describe(run_id, config)})

    def check(self, say: Callable[[str], None]) -> None:
        """Say it, once, if sending has failed."""
        if self.process is not None and self.process.poll() is not None:
            assert self.process.stdout is not None
            status, said = self.process.returncode, self.process.stdout.read()
            self.problem = self.problem or said or (f"its process ended with status {status}" if status else None)
            self.process = None
        if self.problem and isinstance(self.settings, Dashboard):
            untouched = "The training is not affected; metrics.jsonl and the record hold everything"
            say(f"{self.settings.title}: {self.problem}. {untouched}")
            self.problem = None

    def close(self, say: Callable[[str], None]) -> None:
        """Let it send the rest and the record, and wait for it no longer than the settings allow."""
        if self.process is not None and isinstance(self.settings, Dashboard):
            self._tell(str(self.record.resolve()) if self.record else None)
            assert self.process.stdin is not None
            with suppress(BrokenPipeError):
                self.process.stdin.close()
            try:
                self.process.wait(self.settings.timeout_seconds + CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                self.problem = f"not finished {self.settings.timeout_seconds:g} s after the run, and left behind"
                self._end()
        self.check(say)

    def _end(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def _tell(self, what: Any) -> None:
        """One line of JSON."""
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; `check` says why
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()


def describe(run_id: str, config: dict[str, Any]) -> dict[str, Any]:
    """How a run is called and grouped: by the item of a paper that it is a row of, or by task and scale."""
    names = {part: config[part]["name"] for part in ("method", "topology", "optimizer", "task")}
    item = item_of(config["experiment"] or "")
    tags = [f"{key}={value}" for key, value in (names | {"scale": config["scale"]}).items()]
    return {
        "name": run_id,
        "group": item or f"{names['task']}/{config['scale']}",
        "job_type": names["method"],
        "tags": tags,
        "config": config,
    }


def _stable_id(path: Path, run_id: str, anew: bool) -> str:
    """The run's id in the dashboard: the same whenever it continues, another one for its configuration elsewhere."""
    kept = path.read_text(errors="replace") if path.exists() and not anew else ""
    if not kept.startswith(f"{run_id}-"):
        kept = f"{run_id}-{secrets.token_hex(4)}"
        write_atomically(path, kept)
    return kept
