"""What a decoding process does: it reads image files, decodes and crops them with torchvision."""

import io
import multiprocessing
import os
import struct
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torchvision.transforms import v2

from tasks.imagenet.settings import Settings

#: what reading and decoding raise for files that are missing, cut off or no images
UNREADABLE = (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)


class Reader(Protocol):
    """Gets an image file's bytes; picklable."""

    def read(self, reference: Any) -> bytes:
        """The undecoded image."""

    def describe(self, reference: Any) -> str:
        """What people call the image: a path, or a row of a data set."""


@dataclass(frozen=True)
class Decoded:
    """The images that could be read, uint8 [B, 3, H, W]; which ones they are; (name, reason) of the others."""

    pixels: Tensor | None
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
        except UNREADABLE as error:
            reason = "not an image" if isinstance(error, UnidentifiedImageError) else str(error).partition("\n")[0]
            corrupt.append((reader.describe(reference), reason))
            continue
        torch.default_generator.manual_seed(seed)
        images.append(_crops[split](image))
        kept.append(index)
    # A tensor reaches the training process through shared memory, an array would be copied through a pipe.
    return Decoded(torch.stack(images) if images else None, kept, corrupt)


def decode_rgb(content: bytes) -> Tensor:
    """uint8 [3, H, W] from a file of any format and colour space; one of `UNREADABLE` if it is damaged."""
    with Image.open(io.BytesIO(content)) as image:
        # The channels stay last in memory, where cropping is fastest.
        return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
