"""The files of a checkpoint: a state for each rank, and a manifest with their sha256."""

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint says about itself."""

    step: int
    identity: dict[str, Any]
    files: dict[str, str]  # name -> sha256


MANIFESTS = TypeAdapter(Manifest)


def read_manifest(folder: Path) -> Manifest:
    """Raises OSError or ValidationError if it cannot be read, or is something else."""
    return MANIFESTS.validate_json((folder / MANIFEST).read_bytes(), strict=True)


def make_empty(folder: Path) -> None:
    """Make the folder anew, whatever was there."""
    remove(folder)
    folder.mkdir(parents=True)


def remove(path: Path) -> None:
    """Remove a folder, or a file or link that has a folder's name."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_state(path: Path, state: dict) -> tuple[str, str]:
    """Write the state so that it is on disk; returns (file name, sha256)."""
    with path.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    return path.name, sha256(path)


def publish(partial: Path, final: Path, manifest: Manifest) -> None:
    """Rename a complete folder to its final name."""
    if missing := [name for name in manifest.files if not (partial / name).is_file()]:
        raise OSError(f"{partial} lacks {missing}; out= must lie on a file system that all nodes share")
    with (partial / MANIFEST).open("w") as file:
        json.dump(asdict(manifest), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    remove(final)
    os.replace(partial, final)
    directory = os.open(final.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def sha256(path: Path) -> str:
    """Of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
