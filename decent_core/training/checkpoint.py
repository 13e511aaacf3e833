"""Checkpoints: every rank's whole state, written atomically, verified before it is used.

A checkpoint is a folder `step_<n>` with one file a rank and a manifest of their sha256. It is written under another
name and renamed when every rank's file is complete, so a folder with the final name is whole, whenever the run was
killed.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from decent_core.engine.communicator import Communicator
from decent_core.training.checkpoint_files import (
    MANIFEST,
    Manifest,
    make_empty,
    publish,
    read_manifest,
    remove,
    sha256,
    write_state,
)  # fmt: skip

ASIDE = "set_aside"  # folder of checkpoints that a run has not continued from


class Checkpoints:
    """The checkpoints of one run under `folder`, which all ranks share; the last `keep` stay.

    `identity` is what a checkpoint must agree on with the run that continues it (world size, model, method, ...).
    """

    def __init__(
        self, folder: Path, communicator: Communicator, keep: int, identity: dict[str, Any], warn: Callable[[str], None]
    ):
        self.folder, self.communicator, self.keep, self.warn = folder, communicator, keep, warn
        self.identity = json.loads(json.dumps(identity))
        self.file_name = f"rank_{communicator.rank:05d}.pt"

    def save(self, step: int, state: dict) -> Path:
        """Write all ranks' states as the checkpoint of `step`; every rank must call it.

        Raises OSError on every rank if one of them cannot write; the checkpoints before stay as they are.
        """
        final = self.folder / f"step_{step:08d}"
        partial = final.with_suffix(".partial")
        main = self.communicator.rank == 0
        self._together(lambda: make_empty(partial) if main else None)
        files = self._together(lambda: write_state(partial / self.file_name, state))
        manifest = Manifest(step, self.identity, dict(files))
        self._together(lambda: publish(partial, final, manifest) if main else None)
        if main:
            self._remove_old(final)
        return final

    def _remove_old(self, newest: Path) -> None:
        """Remove all but the last `keep` up to `newest`, which always stays."""
        older = [folder for folder in self._folders() if folder.name < newest.name]
        for old in older[: len(older) - (self.keep - 1)]:
            try:
                remove(old)
            except OSError as error:  # no reason to end a run whose checkpoint is complete
                self.warn(f"checkpoint {old} could not be removed: {error}")

    def load(self, resume: str) -> dict | None:
        """This rank's state of the checkpoint to continue from; None: start anew.

        `auto`: the newest that is whole on every rank and fits this run; others are refused by name and the one before
        is tried. `never`: None. Anything else is the path of one checkpoint. Raises ValueError, on every rank, if that
        one cannot be used, or if there are only checkpoints of another configuration.

        Checkpoints under `folder` of later steps, or of a former run if this one starts anew, are set aside: they are
        neither continued from nor counted among the ones to keep.
        """
        if resume == "never":
            self._set_aside("")
            return None
        candidates = self._folders()[::-1] if resume == "auto" else [Path(resume)]
        refusals, mismatched = [], False
        for folder in candidates:
            damaged, other = self._problems(folder)
            if not damaged and not other:
                self._set_aside(f"step_{read_manifest(folder).step:08d}")
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
        self._set_aside("")
        return None

    def _set_aside(self, last: str) -> None:
        """Move what comes after the checkpoint called `last` out of the way; raises OSError on every rank."""
        self._together(lambda: self._move_after(last) if self.communicator.rank == 0 else None)

    def _move_after(self, last: str) -> None:
        later = [folder for folder in self._folders() if folder.name > last]
        if later:
            make_empty(self.folder / ASIDE)
            for folder in later:
                os.replace(folder, self.folder / ASIDE / folder.name)
            self.warn(f"{len(later)} later or former checkpoints are set aside in {self.folder / ASIDE}")

    def _folders(self) -> list[Path]:
        """All checkpoints by step, also what only has the name of one."""
        return sorted(f for f in self.folder.glob("step_*") if f.suffix == "")

    def _together(self, work: Callable[[], Any]) -> list:
        """What `work` returns on each rank; if it fails on one, it fails on all, and nobody waits in vain."""
        result, failure = None, None
        try:
            result = work()
        except OSError as error:
            failure = f"rank {self.communicator.rank}: {error}"
        outcomes = self.communicator.each_process((result, failure), "checkpoint")
        if failures := [failure for _, failure in outcomes if failure is not None]:
            raise OSError(f"no checkpoint could be written under {self.folder}: {'; '.join(failures)}")
        return [result for result, _ in outcomes]

    def _problems(self, folder: Path) -> tuple[list[str], list[str]]:
        """What is damaged, and what belongs to another configuration, seen by any rank."""
        seen = self.communicator.each_process(self._inspect(folder), "checkpoint")
        return tuple(sorted({text for rank in seen for text in rank[kind]}) for kind in (0, 1))  # type: ignore[return-value]

    def _inspect(self, folder: Path) -> tuple[list[str], list[str]]:
        try:
            manifest = read_manifest(folder)
        except (OSError, ValidationError) as error:
            return [f"{MANIFEST} cannot be read ({type(error).__name__})"], []
        identity = manifest.identity
        keys = sorted(identity.keys() | self.identity.keys())
        pairs = [(key, identity.get(key), self.identity.get(key)) for key in keys]
        if other := [f"{key} is {saved!r} there, {here!r} here" for key, saved, here in pairs if saved != here]:
            return [], other
        path = folder / self.file_name
        if not path.is_file():
            return [f"{self.file_name} is missing"], []
        try:
            same = sha256(path) == manifest.files.get(self.file_name)
        except OSError as error:
            return [f"{self.file_name} cannot be read ({error.strerror})"], []
        return ([], []) if same else ([f"{self.file_name} has another sha256"], [])
