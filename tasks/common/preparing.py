"""What the tasks' preparations share."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from decent_core.system.files import open_lock

#: called with (parts done, parts in all)
Progress = Callable[[int, int], None]


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """A lock on a folder, which is made: of processes that start together the first prepares.

    ValueError if it can't be made or locked.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(open_lock(folder / "lock"))
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise ValueError(
                f"{folder} can't be prepared ({error.strerror}): choose another task.data_dir, where files can be "
                "written and locked."
            ) from error
        yield
