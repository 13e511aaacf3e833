"""Brings a data set to where training looks for it."""

from pathlib import Path

from tasks.common.preparing import Progress, folder_lock
from tasks.imagenet import ilsvrc
from tasks.imagenet.fashion_files import prepare_fashion
from tasks.imagenet.settings import Settings


def prepare(settings: Settings, progress: Progress) -> str:
    """Fetches, unpacks or checks `settings.dataset`; returns a summary for people. ValueError if that can't be done."""
    if settings.dataset == "fashion_mnist_12k":
        return "task.dataset=fashion_mnist_12k is embedded: nothing to prepare."
    if settings.dataset in ("fashion_mnist", "ilsvrc"):
        with folder_lock(Path(settings.data_dir)):
            return (prepare_fashion if settings.dataset == "fashion_mnist" else ilsvrc.unpack)(settings, progress)
    from tasks.imagenet.splits import open_splits

    splits = open_splits(settings)  # a data set of the hub is fetched here, and kept by `datasets`
    counts = ", ".join(f"{len(split.labels):,} {name} images" for name, split in splits.items())
    return f"{settings.dataset}: {counts}, {len(splits['train'].class_names):,} classes"
