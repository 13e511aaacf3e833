"""Brings a data set to where training looks for it."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.imagenet import ilsvrc
from tasks.imagenet.fashion_files import prepare_fashion
from tasks.imagenet.settings import Settings

#: called with (parts done, parts in all)
Progress = Callable[[int, int], None]


def prepare(settings: Settings, progress: Progress) -> str:
    """Fetches, unpacks or checks `settings.dataset`; returns a summary for people. ValueError if that can't be done."""
    if settings.dataset == "fashion_mnist_12k":
        return "task.dataset=fashion_mnist_12k is embedded: nothing to prepare."
    if settings.dataset in ("fashion_mnist", "ilsvrc"):
        with _alone(Path(settings.data_dir)):
            return (prepare_fashion if settings.dataset == "fashion_mnist" else ilsvrc.unpack)(settings, progress)
    from tasks.imagenet.splits import open_splits

    splits = open_splits(settings)  # a data set of the hub is fetched here, and kept by `datasets`
    counts = ", ".join(f"{len(split.labels):,} {name} images" for name, split in splits.items())
    return f"{settings.dataset}: {counts}, {len(splits['train'].class_names):,} classes"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Processes that start together take turns; all but the first find the files complete."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise ValueError(f"Files in {folder} can't be locked ({error}): choose another task.data_dir.") from error
        yield
