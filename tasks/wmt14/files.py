"""A folder of files that grow while its manifest says how much of each is settled: killed, it continues from there."""

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any, BinaryIO

from decent_core.system.files import write_atomically
from tasks.wmt14.settings import Settings

FORMAT = 2
SETTLE_SECONDS = 5.0


def identity(settings: Settings) -> dict[str, Any]:
    """All that decides the content of the prepared files."""
    return {
        "format": FORMAT,
        "dataset": settings.dataset,
        "languages": list(settings.languages),
        "vocabulary": settings.vocabulary,
        "validation_every": settings.validation_every,
    }


def prepared_folder(settings: Settings) -> Path:
    """Where the prepared files of `settings` lie; other content has another folder."""
    key = hashlib.sha256(json.dumps(identity(settings)).encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(settings.dataset).name)
    return Path(settings.data_dir) / f"{name}-{'-'.join(settings.languages)}-{settings.vocabulary}-{key}"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a prepared folder, None if nothing was begun there."""
    path = folder / "manifest.json"
    return json.loads(path.read_text()) if path.exists() else None


class GrowingFiles:
    """Files that are appended to, with a state beside them; `settle` makes both survive a kill together."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest  # manifest["sizes"]: settled bytes of each file
        self._open: dict[str, BinaryIO] = {}
        self._settled = time.monotonic()

    def write(self, name: str, content: bytes) -> None:
        """Append to the file; what a killed run wrote behind the settled size is overwritten."""
        if name not in self._open:
            self._open[name] = _open_at(self.folder / name, self.manifest["sizes"].get(name, 0))
        self._open[name].write(content)

    def settle(self, now: bool = True) -> None:
        """Make what was written so far, and the manifest, survive; not now: only if the last time is seconds ago."""
        if not now and time.monotonic() - self._settled < SETTLE_SECONDS:
            return
        for name, file in self._open.items():
            file.flush()
            os.fsync(file.fileno())
            self.manifest["sizes"][name] = file.tell()
        write_atomically(self.folder / "manifest.json", json.dumps(self.manifest, indent=2))
        self._settled = time.monotonic()

    def close(self) -> None:
        """Settle and close all files."""
        self.settle()
        for file in self._open.values():
            file.close()
        self._open.clear()


def _open_at(path: Path, size: int) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("r+b" if size else "wb")
    if file.seek(0, os.SEEK_END) < size:
        raise ValueError(f"{path} is shorter than its manifest says. Delete {path.parent} and prepare again.")
    file.truncate(size)
    file.seek(size)
    return file
