"""Files that are written whole or not at all, and what is said where none can be. No torch."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

#: errors of the system that say that a path is wrong, and nothing about the disk
WRONG_PATH = frozenset(
    {
        errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR,
        errno.EPERM, errno.EROFS,
    }
)  # fmt: skip


class WrongPath(ValueError, OSError):
    """No file can be written there: a mistake in a command, and a failed write for whoever can go on without it."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a whole file, or leave the old one as it was; the folder is made.

    Raises WrongPath, which names the path, where no file can be; an OSError of the disk, if it is full, stays as it is.
    """
    partial = path.parent / f".{path.name}.{os.getpid()}.partial"
    with naming(path), _removing(partial):
        if path.exists() and not path.is_file():
            raise IsADirectoryError(errno.EISDIR, "a folder or a device is there")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)


def make_folder(path: Path) -> None:
    """Make a folder with those above it, unless it is there; raises as `write_atomically`."""
    with naming(path):
        path.mkdir(parents=True, exist_ok=True)


def open_lock(path: Path) -> IO[str]:
    """Open a file to lock it, made if missing; its content stays, and a symbolic link there is an OSError (ELOOP)."""
    return open(path, "a", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Inside, an error of the system that says that a path is wrong becomes a WrongPath that names this one."""
    try:
        yield
    except OSError as error:
        if error.errno not in WRONG_PATH:
            raise
        # of a folder that is to be made where a file lies, mkdir says "File exists"
        problem = os.strerror(errno.ENOTDIR) if error.errno == errno.EEXIST else error.strerror
        raise WrongPath(f"{path}: cannot be written ({problem})") from None


@contextmanager
def _removing(partial: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(OSError):
            partial.unlink()
