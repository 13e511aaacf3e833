"""What a decoding process does: it reads image files, decodes and crops them with torchvision."""

import multiprocessing
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

from tasks.imagenet.settings import Settings


class Reader(Protocol):
    """Gets an image file's bytes; picklable."""

    def read(self, reference: Any) -> bytes:
        """The undecoded image."""

    def describe(self, reference: Any) -> str:
        """What people call the image: a path, or a row of a data set."""


@dataclass(frozen=True)
class Decoded:
    """The images that could be read, uint8 [B, H, W, 3]; which ones they are; (name, reason) of the others."""

    pixels: np.ndarray
    kept: list[int]
    corrupt: list[tuple[str, str]]


_readers: dict[str, Reader]  # by split
_crops: dict[str, v2.Compose]


def start(settings: Settings, readers: dict[str, Reader]) -> None:
    """Prepares this process; it ends with its parent."""
    global _readers, _crops
    torch.set_num_threads(1)
    _readers, _crops = readers, crops(settings)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def crops(settings: Settings) -> dict[str, v2.Compose]:
    """[P]'s: a random resized crop (area .08 to 1, ratio 3/4 to 4/3) and a flip; a resize and a centre crop.

    Bilinear, without antialiasing.
    """
    training = [v2.RandomResizedCrop(settings.train_size, antialias=False), v2.RandomHorizontalFlip()]
    validation = [v2.Resize(settings.validation_resize, antialias=False), v2.CenterCrop(settings.validation_size)]
    return {"train": v2.Compose(training), "validation": v2.Compose(validation)}


def decode(split: str, references: Sequence[Any], seeds: Sequence[int]) -> Decoded:
    """Decodes and crops; an image's seed decides on its crop and flip."""
    reader, images, kept, corrupt = _readers[split], [], [], []
    for index, (reference, seed) in enumerate(zip(references, seeds, strict=True)):
        try:
            image = decode_rgb(reader.read(reference))
        except (OSError, RuntimeError, ValueError) as error:
            corrupt.append((reader.describe(reference), str(error).splitlines()[0]))
            continue
        torch.default_generator.manual_seed(seed)
        images.append(_crops[split](image).permute(1, 2, 0).numpy())
        kept.append(index)
    return Decoded(np.stack(images) if images else np.empty((0, 0, 0, 3), np.uint8), kept, corrupt)


def decode_rgb(content: bytes) -> Tensor:
    """uint8 [3, H, W] from a JPEG or PNG of any colour space; RuntimeError or ValueError if it is none."""
    if not content:
        raise ValueError("the file is empty")
    return decode_image(torch.frombuffer(bytearray(content), dtype=torch.uint8), ImageReadMode.RGB)


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
