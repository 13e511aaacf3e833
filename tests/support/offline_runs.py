"""Reads the files that W&B writes offline, with W&B's own reader."""

import json
import subprocess
import sys
from pathlib import Path


def offline_runs(folder: Path) -> list[Path]:
    """The `.wandb` files under a run's folder."""
    return sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))


def records(path: Path, kind: str) -> list[dict]:
    """All records of a kind: `run`, `history`, `summary`, `files`, `exit`, ..."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line[kind] for line in lines if line["type"] == kind]


def history(path: Path) -> list[dict]:
    """What was logged, step by step, without W&B's own values but `_step`."""
    rows = [record["item"] for record in records(path, "history")]
    return [{k: v for k, v in row.items() if k == "_step" or not k.startswith("_")} for row in rows]


def summary(path: Path) -> dict:
    """The run's values as the run's table shows them."""
    values: dict = {}
    for record in records(path, "summary"):
        values |= record["update"]
    return values
