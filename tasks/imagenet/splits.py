"""Where image files are: an ImageFolder tree, or parquet files with the schema of the hub's imagenet-1k."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tasks.imagenet.decode import Reader
from tasks.imagenet.ilsvrc import prepared_tree
from tasks.imagenet.settings import Settings


class Split(Protocol):
    """The image files of one split, sorted by label."""

    labels: np.ndarray
    class_names: list[str]

    @property
    def reader(self) -> Reader:
        """What gets the bytes, in a decoding process."""

    def references(self, items: np.ndarray) -> Sequence[Any]:
        """What the reader reads, for indices [B]."""


def open_splits(settings: Settings) -> dict[str, Split]:
    """The training and validation files of `task.dataset`; ValueError if they are not there."""
    root = prepared_tree(settings) if settings.dataset == "ilsvrc" else Path(settings.dataset)
    if (root / "train").is_dir() and any(path.is_dir() for path in (root / "train").iterdir()):
        splits: dict[str, Split] = {"train": Tree(root / "train"), "validation": Tree(root / "val")}
    else:
        splits = {name: Parquet(settings.dataset, name) for name in ("train", "validation")}
    train, validation = (splits[name].class_names for name in ("train", "validation"))
    if train != validation:
        raise ValueError(
            f"task.dataset={settings.dataset}: training and validation images have other classes, "
            f"such as {sorted(set(train) ^ set(validation))[:5]}."
        )
    return splits


@dataclass(frozen=True)
class TreeReader:
    """Reads paths relative to a folder."""

    root: Path

    def read(self, reference: str) -> bytes:
        return (self.root / reference).read_bytes()

    def describe(self, reference: str) -> str:
        return str(self.root / reference)


class Tree:
    """CLASS/* below `root`; labels count the classes in alphabetical order, as torchvision's ImageFolder does."""

    def __init__(self, root: Path) -> None:
        from torchvision.datasets import ImageFolder

        try:
            folder = ImageFolder(root)
        except FileNotFoundError as error:
            raise ValueError(f"{root} is no folder of image files with one folder a class: {error}") from error
        self._paths = [str(Path(path).relative_to(root)) for path, _ in folder.samples]
        self.labels = np.array(folder.targets, np.int64)
        self.class_names = folder.classes
        self.reader = TreeReader(root)

    def references(self, items: np.ndarray) -> list[str]:
        return [self._paths[item] for item in items]


@dataclass(frozen=True)
class ParquetReader:
    """Reads rows of a data set that `datasets` maps from disk."""

    rows: Any
    name: str

    def read(self, reference: int) -> bytes:
        image = self.rows[reference]["image"]
        return image["bytes"] if image["bytes"] is not None else Path(image["path"]).read_bytes()

    def describe(self, reference: int) -> str:
        return f"{self.name} row {reference}"


class Parquet:
    """Columns `image` and `label` of a split of a local folder or of a data set on the hub, through `datasets`."""

    def __init__(self, dataset: str, split: str) -> None:
        import datasets  # takes a second to import; trees don't need it

        datasets.disable_progress_bars()
        try:
            rows = datasets.load_dataset(dataset, split=split)
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"task.dataset={dataset} has no readable split {split} ({error}). Give an ImageFolder tree "
                "(train/CLASS/*, val/CLASS/*), a folder of parquet files, or a name on the Hugging Face hub that this "
                "machine can reach."
            ) from error
        wanted = {"image": datasets.Image, "label": datasets.ClassLabel}
        if any(not isinstance(rows.features.get(column), kind) for column, kind in wanted.items()):
            raise ValueError(
                f"task.dataset={dataset} needs columns image (Image) and label (ClassLabel); it has {rows.features}."
            )
        self.class_names = rows.features["label"].names
        labels = np.array(rows.with_format("numpy")["label"][:], np.int64)
        self._order = np.argsort(labels, kind="stable")
        self.labels = labels[self._order]
        encoded = rows.select_columns(["image"]).cast_column("image", datasets.Image(decode=False))
        self.reader = ParquetReader(encoded, f"{dataset} {split}")

    def references(self, items: np.ndarray) -> list[int]:
        return self._order[items].tolist()
