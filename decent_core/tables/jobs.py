"""Jobs files: the overrides of one run a line, quoted as a shell does, each with the folder that it writes to."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from decent_core.config.load import load
from decent_core.tables.planned_run import PlannedRun, quoted

PLAIN = re.compile(r"[\w./-]+", re.ASCII)  # what Hydra takes for itself without quotes


def jobs_text(runs: Sequence[PlannedRun]) -> str:
    """The content of a jobs file; raises ValueError for a folder that cannot stand in one."""
    return "".join(shlex.join([*run.overrides, f"out={_value(run.folder)}"]) + "\n" for run in runs)


def _value(folder: Path) -> str:
    """A folder as an override's value: quoted where Hydra would read something else or nothing."""
    text = str(folder)
    if len(text.splitlines()) > 1 or "${" in text or "\\'" in text:
        raise ValueError(f"{text!r}: no folder for runs; any name works without line breaks, ${{ and \\'")
    return text if PLAIN.fullmatch(text) else quoted(folder)


def read_jobs(path: Path) -> list[PlannedRun]:
    """The runs of a jobs file, in its order; raises ValueError that names the line."""
    if not path.is_file():
        raise ValueError(f"jobs={path}: no such file; python -m scripts.tables plan table=TABLE out={path} writes it")
    runs = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        try:
            overrides = shlex.split(line)
            config = load(overrides)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if config.out is None:
            raise ValueError(f"{path}, line {number}: it names no folder; give out=FOLDER")
        name = f"{config.experiment or config.task.name}-s{config.seed}"
        others = tuple(text for text in overrides if not text.startswith("out="))
        runs.append(PlannedRun(name, others, Path(config.out), config.config_hash, config.trainer.steps))
    return runs
