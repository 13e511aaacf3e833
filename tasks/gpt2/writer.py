"""Token files that grow document by document and survive a kill at any moment."""

import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tasks.gpt2.tokens import write_manifest


class TokenWriter:
    """Appends documents to the token files; the manifest tells how much of them is settled."""

    def __init__(self, folder: Path, manifest: dict[str, Any], held_out: np.ndarray) -> None:
        self._folder = folder
        self._manifest = manifest
        self._held_out = held_out  # in the order of val.bin
        self._is_held_out = set(held_out.tolist())
        self._train = _open_at(folder / "train.bin", manifest["train_tokens"])
        self._validation = _open_at(folder / "val.parts", manifest["validation_tokens"])  # in order of documents

    @property
    def documents(self) -> int:
        return self._manifest["documents"]

    @property
    def tokens(self) -> int:
        return self._manifest["train_tokens"] + self._manifest["validation_tokens"]

    @property
    def state(self) -> Any:
        """The source's state behind the last document that was added."""
        return self._manifest["state"]

    def add(self, documents: list[np.ndarray], state: Any) -> None:
        """The next documents' ids, and the source's state behind them."""
        for ids in documents:
            held_out = self._manifest["documents"] in self._is_held_out
            (self._validation if held_out else self._train).write(ids.tobytes())
            self._manifest["validation_tokens" if held_out else "train_tokens"] += len(ids)
            self._manifest["documents"] += 1
        self._manifest["state"] = state

    def checkpoint(self) -> None:
        """What was added so far survives a kill from here on."""
        for file in (self._train, self._validation):
            file.flush()
            os.fsync(file.fileno())
        write_manifest(self._folder, self._manifest)

    def finish(self) -> None:
        """Writes `val.bin` in its own order and marks the files as complete."""
        self.checkpoint()
        parts = np.fromfile(self._folder / "val.parts", dtype=np.uint16)
        ends = np.flatnonzero(parts == self._manifest["end_of_text"]) + 1
        documents = np.split(parts, ends[:-1])
        places = np.searchsorted(np.sort(self._held_out), self._held_out)
        with (self._folder / "val.bin").open("wb") as file:
            for place in places:
                file.write(documents[place].tobytes())
            file.flush()
            os.fsync(file.fileno())
        write_manifest(self._folder, {**self._manifest, "state": None, "complete": True})
        self._train.close()
        self._validation.close()
        (self._folder / "val.parts").unlink()


def _open_at(path: Path, tokens: int) -> BinaryIO:
    """The file opened for writing behind its first `tokens` ids; what lies behind them was never settled."""
    file = path.open("r+b" if tokens else "wb")
    if file.seek(0, os.SEEK_END) < 2 * tokens:
        raise ValueError(f"{path} is shorter than its manifest says. Delete {path.parent} and prepare again.")
    file.truncate(2 * tokens)
    file.seek(2 * tokens)
    return file
