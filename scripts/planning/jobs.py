"""Jobs files: the overrides of one run a line, quoted as a shell does, each with the folder that it writes to."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from scripts.command.config import load
from scripts.running.children import Child


def jobs_text(runs: Sequence[Child]) -> str:
    """The content of a jobs file."""
    return "".join(shlex.join([*run.overrides, f"out={run.folder}"]) + "\n" for run in runs)


def read_jobs(path: Path) -> list[Child]:
    """The runs of a jobs file, in its order; raises ValueError that names the line."""
    if not path.is_file():
        raise ValueError(f"jobs={path}: no such file; python -m scripts.plan item=ITEM out={path} writes it")
    runs = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        overrides = [text for text in shlex.split(line) if not text.startswith("out=")]
        try:
            config = load(overrides)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        folder = next((text for text in shlex.split(line) if text.startswith("out=")), None)
        if folder is None:
            raise ValueError(f"{path}, line {number}: it names no folder; give out=FOLDER")
        name = f"{config.experiment or config.task.name}-s{config.seed}"
        place = Path(folder.removeprefix("out="))
        runs.append(Child(name, tuple(overrides), place, config.config_hash, config.trainer.steps))
    return runs
