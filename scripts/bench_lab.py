"""What the benches share on the side that starts the workers."""

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

from decent_core.record import versions


def check_reference() -> None:
    """Raises ValueError if the reference implementation is not installed."""
    if importlib.util.find_spec("decent_dp") is None:
        raise ValueError("decent-dp, the reference, is not installed: make setup, or pip install '.[compare]'")


def compared_versions() -> dict[str, str]:
    """Versions of the packages that a run depends on, and of the reference."""
    return {**versions(), "decent-dp": importlib.metadata.version("decent-dp")}


def earlier(path: str) -> dict[str, Any]:
    """What a bench has written before; raises ValueError if there is no such file."""
    if not Path(path).is_file():
        raise ValueError(f"measured={path}: no such file; it is the .json that an earlier call has written")
    return json.loads(Path(path).read_text())
