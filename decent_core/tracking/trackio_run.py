"""A training run in trackio: a database on this machine, looked at with `trackio show`."""

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

#: what would have trackio send a run to a server
ELSEWHERE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_BUCKET_ID", "TRACKIO_DATASET_ID")


class TrackioRun:
    """One trackio run; a `decent_core.tracking.dashboard_run.DashboardRun`."""

    first = 0  # a continued run is sent from its beginning again

    def __init__(self, folder: Path, settings: dict[str, Any]):
        for name in ELSEWHERE:
            os.environ.pop(name, None)
        os.environ["HF_HUB_OFFLINE"] = "1"  # or it asks Hugging Face whose token it finds
        os.environ["TRACKIO_DIR"] = str(Path(settings["folder"]).resolve())  # read when trackio is imported
        import trackio

        self.trackio, self.project = trackio, settings["project"]
        self.run: Any = None
        self.problems: list[str] = []
        warnings.simplefilter("always")
        warnings.showwarning = self._note

    def _note(self, message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        """Trackio never raises: it warns, from whatever thread."""
        if category is UserWarning and Path(filename).parent == Path(self.trackio.__file__).parent:
            self.problems.append(str(message))

    def _check(self) -> None:
        if self.problems:
            raise RuntimeError(self.problems[0])

    def start(self, described: dict[str, Any]) -> None:
        """Begin, in place of an earlier part of the same run."""
        self._remove_superseded(described["id"])
        self.run = self.trackio.init(
            self.project,
            name=described["id"],
            group=described["group"],
            config=described["config"],
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        self._check()

    def _remove_superseded(self, name: str) -> None:
        from trackio import fragments

        fragments.import_inbox_dir()  # on a network file system rows wait there until somebody looks at them
        with suppress(ValueError):  # no run of the project yet
            for run in self.trackio.Api().runs(self.project):
                if run.name == name and not run.delete():
                    self.problems.append(f"the earlier part of run {name} cannot be replaced")

    def log(self, step: int, values: dict[str, Any]) -> None:
        """One row, written by a thread of trackio's within half a second."""
        self.run.log(values, step=step)
        self._check()

    def finish(self, record: Path | None, summary: dict[str, Any]) -> None:
        """Attach the record as an artifact with the summary as its metadata."""
        if record is not None:
            artifact = self.trackio.Artifact(f"record-{self.run.name}", type="record", metadata=summary)
            artifact.add_file(record)
            self.run.log_artifact(artifact)
        self.run.finish()
        self._check()
