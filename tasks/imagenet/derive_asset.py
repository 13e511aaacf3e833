"""Derives the image asset from Debian's package (needs a network, apt-get and dpkg-deb)."""

from pathlib import Path

import numpy as np

from tasks import assets
from tasks.imagenet.fashion import CLASSES, EMBEDDED
from tasks.imagenet.fashion_files import PACKAGE, fashion_files, read_split

VERSION = "0.0~git20200523.55506a9-1"


def fashion_mnist_12k() -> Path:
    """The first images of each class of Fashion-MNIST, 1,200 for training and 200 of the test set for validation."""
    parts = []
    with fashion_files(None) as source:
        licence = (source.parents[1] / "doc" / PACKAGE / "copyright").read_text()
        for split, each in EMBEDDED.items():
            data = read_split(source, split)
            chosen = [np.flatnonzero(data.labels == label)[:each] for label in range(CLASSES)]
            parts.append(data.images[np.concatenate(chosen)])
    return assets.write(
        "fashion_mnist_12k",
        np.concatenate(parts).tobytes(),
        source=f"Debian {PACKAGE} {VERSION}",
        content_is="uint8 images of 28 x 28: the first 1,200 of each class of the training set, sorted by class; then "
        "the first 200 of each class of the test set, sorted by class",
        licence=licence,
    )
