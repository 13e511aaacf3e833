"""Checkpoints: every rank's whole state, written atomically, verified before it is used.

A checkpoint is a folder `step_<n>` with one file a rank and a manifest of their sha256. It is written under another
name and renamed when every rank's file is complete, so a folder with the final name is whole, whenever the run was
killed.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from decent_core.engine.communicator import World

MANIFEST = "manifest.json"


class Checkpoints:
    """The checkpoints of one run under `folder`, which all ranks share; the last `keep` stay.

    `identity` is what a checkpoint must agree on with the run that continues it (world size, model, method, ...).
    """

    def __init__(self, folder: Path, world: World, keep: int, identity: dict[str, Any], warn: Callable[[str], None]):
        self.folder, self.world, self.keep, self.warn = folder, world, keep, warn
        self.identity = json.loads(json.dumps(identity))
        self.file_name = f"rank_{world.rank:05d}.pt"

    def save(self, step: int, state: dict) -> Path:
        """Write all ranks' states as the checkpoint of `step`; every rank must call it.

        Raises OSError on every rank if one of them cannot write; the checkpoints before stay as they are.
        """
        final = self.folder / f"step_{step:08d}"
        partial = final.with_suffix(".partial")
        main = self.world.rank == 0
        self._together(lambda: _make_empty(partial) if main else None)
        files = self._together(lambda: _write(partial / self.file_name, state))
        manifest = {"step": step, "identity": self.identity, "files": dict(files)}
        self._together(lambda: _publish(partial, final, manifest) if main else None)
        if main:
            self._remove_old()
        return final

    def _remove_old(self) -> None:
        for old in self._folders()[: -self.keep]:
            try:
                shutil.rmtree(old)
            except OSError as error:  # no reason to end a run whose checkpoint is complete
                self.warn(f"checkpoint {old} could not be removed: {error}")

    def load(self, resume: str) -> dict | None:
        """This rank's state of the checkpoint to continue from; None: start anew.

        `auto`: the newest that is whole on every rank and fits this run; others are refused by name and the one before
        is tried. `never`: None. Anything else is the path of one checkpoint. Raises ValueError, on every rank, if that
        one cannot be used, or if there are only checkpoints of another configuration.
        """
        if resume == "never":
            return None
        candidates = self._folders()[::-1] if resume == "auto" else [Path(resume)]
        refusals, mismatched = [], False
        for folder in candidates:
            damaged, other = self._problems(folder)
            if not damaged and not other:
                return torch.load(folder / self.file_name, weights_only=True, map_location="cpu")
            mismatched |= bool(other) and not damaged
            refusals.append(f"checkpoint {folder} refused: {'; '.join(damaged or other)}")
            self.warn(refusals[-1])
        if refusals and (resume != "auto" or mismatched):
            hint = (
                "choose another out= folder, or resume=never to start anew"
                if resume == "auto"
                else "resume=auto finds the newest usable"
            )
            raise ValueError(f"{'; '.join(refusals)} ({hint})")
        return None

    def _folders(self) -> list[Path]:
        return sorted(f for f in self.folder.glob("step_*") if f.suffix == "")

    def _together(self, work: Callable[[], Any]) -> list:
        """What `work` returns on each rank; if it fails on one, it fails on all, and nobody waits in vain."""
        result, failure = None, None
        try:
            result = work()
        except OSError as error:
            failure = f"rank {self.world.rank}: {error}"
        outcomes = self.world.each_process((result, failure), "checkpoint")
        if failures := [failure for _, failure in outcomes if failure is not None]:
            raise OSError(f"no checkpoint could be written under {self.folder}: {'; '.join(failures)}")
        return [result for result, _ in outcomes]

    def _problems(self, folder: Path) -> tuple[list[str], list[str]]:
        """What is damaged, and what belongs to another configuration, seen by any rank."""
        seen = self.world.each_process(self._inspect(folder), "checkpoint")
        return tuple(sorted({text for rank in seen for text in rank[kind]}) for kind in (0, 1))  # type: ignore[return-value]

    def _inspect(self, folder: Path) -> tuple[list[str], list[str]]:
        try:
            manifest = json.loads((folder / MANIFEST).read_text())
            identity, files = manifest["identity"], manifest["files"]
        except (OSError, ValueError, KeyError) as error:
            return [f"{MANIFEST} cannot be read ({type(error).__name__})"], []
        keys = sorted(identity.keys() | self.identity.keys())
        pairs = [(key, identity.get(key), self.identity.get(key)) for key in keys]
        if other := [f"{key} is {saved!r} there, {here!r} here" for key, saved, here in pairs if saved != here]:
            return [], other
        path = folder / self.file_name
        if not path.is_file():
            return [f"{self.file_name} is missing"], []
        try:
            same = _sha256(path) == files.get(self.file_name)
        except OSError as error:
            return [f"{self.file_name} cannot be read ({error.strerror})"], []
        return ([], []) if same else ([f"{self.file_name} has another sha256"], [])


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _write(path: Path, state: dict) -> tuple[str, str]:
    """Write the state so that it is on disk; returns (file name, sha256)."""
    with path.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    return path.name, _sha256(path)


def _publish(partial: Path, final: Path, manifest: dict) -> None:
    """Rename a complete folder to its final name."""
    if missing := [name for name in manifest["files"] if not (partial / name).is_file()]:
        raise OSError(f"{partial} lacks {missing}; out= must lie on a file system that all nodes share")
    with (partial / MANIFEST).open("w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    shutil.rmtree(final, ignore_errors=True)
    os.replace(partial, final)
    directory = os.open(final.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
