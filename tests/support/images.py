"""Settings of a small image task, and image files made from the embedded Fashion-MNIST, for tests."""

import functools
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.transforms import v2

from tasks.imagenet.fashion import load_split
from tasks.imagenet.settings import Settings
from tasks.imagenet.task import ImageTask
from tests.support import needs

#: for tests of what both decoders have to do
DECODERS = ["torchvision", pytest.param("dali", marks=needs.dali)]

TINY = {
    "name": "imagenet", "dataset": "fashion_mnist_12k", "source_dir": None, "data_dir": "unused", "train_images": 240,
    "validation_images": 90, "mean": (0.286,), "std": (0.353,), "train_size": 28, "padding": 2, "validation_resize": 28,
    "validation_size": 28, "label_smoothing": 0.1, "global_batch": 16, "validation_batch": 20, "sharding": "iid",
    "dirichlet_alpha": None, "decoder": "torchvision", "decode_processes": 2, "look_ahead": 2, "max_corrupt": 0,
    "model": "small_resnet", "norm": "batch", "blocks": (1, 1), "width": 4,
}  # fmt: skip
FILES = {
    "train_images": None, "validation_images": None, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225),
    "train_size": 24, "padding": 0, "validation_resize": 32, "validation_size": 28, "global_batch": 8,
}  # fmt: skip


def settings(**changes) -> Settings:
    return Settings(**{**TINY, **changes})


def file_settings(dataset: Path | str, **changes) -> Settings:
    return settings(dataset=str(dataset), **{**FILES, **changes})


def published_crops(of: Settings) -> dict[str, v2.Compose]:
    """[P]'s, as torchvision's users write them: a reference that draws from the global generator."""
    training = [v2.RandomResizedCrop(of.train_size, antialias=False), v2.RandomHorizontalFlip()]
    validation = [v2.Resize(of.validation_resize, antialias=False), v2.CenterCrop(of.validation_size)]
    return {"train": v2.Compose(training), "validation": v2.Compose(validation)}


@functools.cache
def task(world_size: int = 1, seed: int = 3, **changes) -> ImageTask:
    return ImageTask(settings(**changes), seed, world_size)


@functools.cache
def picture(label: int, number: int, width: int = 60, height: int = 40) -> np.ndarray:
    """A colour image [height, width, 3] with the shape of a piece of clothing; label and number decide on it."""
    split = load_split(settings(), "train")
    grey = split.images[np.flatnonzero(split.labels == label)[number]]
    rgb = np.stack([grey, 255 - grey, np.full_like(grey, 25 * label)], axis=-1)
    return np.asarray(Image.fromarray(rgb).resize((width, height)))


def encoded(pixels: np.ndarray, kind: str = "JPEG", mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, kind)
    return buffer.getvalue()


def write_tree(root: Path, classes: int = 4, train: int = 6, validation: int = 3) -> Path:
    """An ImageFolder tree of JPEGs of several sizes; class c is Fashion-MNIST's class c."""
    for split, start, count in (("train", 0, train), ("val", train, validation)):
        for label in range(classes):
            folder = root / split / f"class_{label}"
            folder.mkdir(parents=True)
            for number in range(start, start + count):
                pixels = picture(label, number, 60 - 5 * (number % 3), 40 + 7 * (number % 2))
                (folder / f"{number:03}.JPEG").write_bytes(encoded(pixels))
    return root
