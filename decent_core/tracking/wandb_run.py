"""A training run in Weights & Biases, offline or on a server."""

import os
import shutil
from pathlib import Path
from typing import Any

from decent_core.tracking.dashboard_run import one_line

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


class WandbRun:
    """One W&B run; a `decent_core.tracking.dashboard_run.DashboardRun`."""

    def __init__(self, folder: Path, settings: dict[str, Any]):
        import wandb

        self.wandb: Any = wandb
        self.folder, self.settings = folder, settings
        self.run: Any = None

    @property
    def first(self) -> int:
        """The first step that the server does not have; 0 offline."""
        return self.run.step

    def start(self, described: dict[str, Any]) -> str | None:
        """Begin; offline, and returns why, if the server cannot be reached."""
        for name in ("CACHE", "DATA"):
            os.environ[f"WANDB_{name}_DIR"] = str(self.folder / "wandb" / "cache")
        mode, problem = self.settings["mode"], None
        try:
            self._init(described, mode)
        except Exception as error:  # W&B has many kinds, and a server many ways to refuse
            if mode == "offline":
                raise
            self.wandb.teardown()  # the id stays in use otherwise
            self._init(described, "offline")
            problem = f"{one_line(error)}; the run is kept offline, for wandb sync {Path(self.run.dir).parent}"
        self._remove_superseded()
        return problem

    def _init(self, described: dict[str, Any], mode: str) -> None:
        seconds = self.settings["timeout_seconds"]
        self.run = self.wandb.init(
            **described,
            mode=mode,
            project=self.settings["project"],
            entity=self.settings["entity"],
            dir=str(self.folder),
            resume="allow",
            settings=self.wandb.Settings(**QUIET, init_timeout=seconds, finish_timeout=seconds),
        )

    def _remove_superseded(self) -> None:
        """A continued run is sent from its beginning again: files of its earlier part would double it."""
        for path in (self.folder / "wandb").glob(f"offline-run-*-{self.run.id}"):
            if path.resolve() != Path(self.run.dir).resolve().parent:
                shutil.rmtree(path)

    def log(self, step: int, values: dict[str, Any]) -> None:
        """One row of the history."""
        self.run.log(values, step=step, commit=True)

    def finish(self, record: Path | None, summary: dict[str, Any]) -> None:
        """Attach the record as a file; W&B shows a run as failed unless its status is ok."""
        if record is not None:
            copy = shutil.copy(record, self.run.dir)
            self.run.save(copy, base_path=self.run.dir, policy="now")
            self.run.summary.update(summary)
        self.run.finish(exit_code=0 if summary.get("status") == "ok" else 1)
