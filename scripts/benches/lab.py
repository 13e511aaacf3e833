"""What the benches share on the side that starts the workers."""

import importlib.metadata
import importlib.util
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decent_core.record import git_state, versions

PATHS = ("out", "measured")


def check_reference() -> None:
    """Raises ValueError if the reference implementation is not installed."""
    if importlib.util.find_spec("decent_dp") is None:
        raise ValueError("decent-dp, the reference, is not installed: make setup, or pip install '.[compare]'")


def origin(schema: int, given: Any) -> dict[str, Any]:
    """What the measurements of a bench are headed by: its options, but for paths, the commit, and all versions."""
    commit, dirty = git_state()
    chosen = {key: value for key, value in asdict(given).items() if key not in PATHS}
    return {
        "schema": schema, "source": "measured", "options": chosen, "git_commit": commit, "git_dirty": dirty,
        "versions": {**versions(), "decent-dp": importlib.metadata.version("decent-dp")},
    }  # fmt: skip


def earlier(path: str) -> dict[str, Any]:
    """What a bench has written before; raises ValueError if there is no such file."""
    if not Path(path).is_file():
        raise ValueError(f"measured={path}: no such file; it is the .json that an earlier call has written")
    return json.loads(Path(path).read_text())
