"""What the tasks' preparations share."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Processes that start together take turns in a folder, which is made; all but the first find the files complete.

    ValueError if the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise ValueError(f"Files in {folder} can't be locked ({error}): choose another task.data_dir.") from error
        yield
