"""The file of measurements that a bench writes: how it begins, and how an earlier one is read."""

import importlib.metadata
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decent_core.records.provenance import git_state, versions

PATHS = ("out", "measured")
WANTED = "give the .json that an earlier call of the same bench has written"

SLEEP = "sleep"  # a load; any other is the name of a task


def check_reference() -> None:
    """Raises ValueError if the reference implementation is not installed."""
    if importlib.util.find_spec("decent_dp") is None:
        raise ValueError("decent-dp, the reference, is not installed: make setup, or pip install '.[compare]'")


def header(schema: int, given: Any) -> dict[str, Any]:
    """What the file begins with: the options of the bench, but for paths, the commit, and all versions."""
    commit, dirty = git_state()
    chosen = {key: value for key, value in asdict(given).items() if key not in PATHS}
    return {
        "schema": schema, "source": "measured", "options": chosen, "git_commit": commit, "git_dirty": dirty,
        "versions": {**versions(), "decent-dp": importlib.metadata.version("decent-dp")},
    }  # fmt: skip


def read_earlier(path: str, schema: int, holds: Sequence[str]) -> dict[str, Any]:
    """Measurements that this bench, whose files hold these keys, wrote before; ValueError for any other file."""
    try:
        record = json.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"measured={path}: cannot be read ({error}); {WANTED}") from None
    if not isinstance(record, dict) or record.get("schema") != schema or not {*holds, "options"} <= record.keys():
        raise ValueError(f"measured={path}: does not hold this bench's {', '.join(holds)}; {WANTED}")
    return record


def describe(load: str) -> str:
    """A load as pictures and tables name it."""
    return "slept computing" if load == SLEEP else f"{load} at scale tiny"
