"""Reads trackio's database with trackio's own command."""

import json
import os
import subprocess
import sys
from pathlib import Path

TRACKIO = str(Path(sys.executable).parent / "trackio")


def ask(folder: Path, *words: str, project: str = "decent-bench") -> dict:
    """What `trackio WORDS --project PROJECT` says of the database in a folder."""
    done = subprocess.run(
        [TRACKIO, *words, "--project", project, "--json"],
        env={**os.environ, "TRACKIO_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def runs(folder: Path, project: str = "decent-bench") -> list[str]:
    """The names of all runs."""
    if not (folder / f"{project}.db").exists():
        return []
    return ask(folder, "list", "runs", project=project)["runs"]


def history(folder: Path, run: str, project: str = "decent-bench") -> list[dict]:
    """What a run has logged, in the order in which it was logged."""
    sql = f"SELECT step, metrics FROM metrics WHERE run_name = '{run}' ORDER BY id"
    rows = ask(folder, "query", "project", "--sql", sql, project=project)["rows"]
    return [{"_step": row["step"], **json.loads(row["metrics"])} for row in rows]


def attached(folder: Path, run: str) -> tuple[bytes, dict]:
    """The record that a run has left, and the values beside it."""
    artifact = ask(folder, "get", "artifact", "--name", f"record-{run}")
    (file,) = artifact["manifest"]
    assert file["path"] == "record.json"
    (path,) = folder.glob(f"artifacts/decent-bench/blobs/sha256/*/{file['digest']}")
    return path.read_bytes(), artifact["metadata"]
