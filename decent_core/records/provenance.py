"""Where numbers come from: the commit and the packages of a run. No torch."""

import importlib.metadata
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: what a run's result depends on; tables, figures and texts may change without making a run irreproducible
SOURCES = ("conf", "decent_core", "tasks", "scripts", "requirements.lock")
PACKAGES = ("torch", "torchvision", "numpy", "transformers", "tokenizers", "datasets", "hydra-core", "pydantic")


def git_state() -> tuple[str | None, bool | None]:
    """Commit of this checkout, and whether the sources differ from it; (None, None) outside git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", *SOURCES))
    except (OSError, subprocess.SubprocessError):
        return None, None


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on, without importing them."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
