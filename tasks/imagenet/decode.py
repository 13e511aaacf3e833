"""What a decoding process does: it reads image files, decodes them with Pillow and crops them with torchvision."""

import io
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torchvision.transforms.v2 import functional as vision

from tasks.common.parallel import end_with_parent
from tasks.imagenet.crops import Crop, Cropping, croppings
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
_croppings: dict[str, Cropping]


def start(settings: Settings, readers: dict[str, Reader]) -> None:
    """Prepares this process; it ends with its parent."""
    global _readers, _croppings
    torch.set_num_threads(1)
    _readers, _croppings = readers, croppings(settings)
    end_with_parent()


def decode(split: str, references: Sequence[Any], seeds: Sequence[int]) -> Decoded:
    """Decodes and crops; an image's seed decides on its crop and flip."""
    reader, images, kept, corrupt = _readers[split], [], [], []
    for index, (reference, seed) in enumerate(zip(references, seeds, strict=True)):
        try:
            image = decode_rgb(reader.read(reference))
        except UNREADABLE as error:
            corrupt.append((reader.describe(reference), why(error)))
            continue
        height, width = image.shape[1:]
        images.append(cut(image, _croppings[split](height, width, seed)))
        kept.append(index)
    # A tensor reaches the training process through shared memory, an array would be copied through a pipe.
    return Decoded(torch.stack(images) if images else None, kept, corrupt)


def shares(images: int, workers: int) -> list[slice]:
    """Equal runs of a batch's images for so many processes or threads; the last may be shorter."""
    size = math.ceil(images / workers)
    return [slice(first, first + size) for first in range(0, images, size)]


def decode_rgb(content: bytes) -> Tensor:
    """uint8 [3, H, W] from a file of any format and colour space; one of `UNREADABLE` if it is damaged."""
    with Image.open(io.BytesIO(content)) as image:
        # The channels stay last in memory, where cropping is fastest.
        return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)


def cut(image: Tensor, crop: Crop) -> Tensor:
    """uint8 [3, H, W] -> [3, side, side]."""
    window = vision.resize(vision.crop(image, *crop.window), list(crop.resized), antialias=False)
    square = vision.crop(window, *crop.corner, crop.side, crop.side)
    return vision.horizontal_flip(square) if crop.flipped else square


def why(error: BaseException) -> str:
    """One of `UNREADABLE` in a few words."""
    return "not an image" if isinstance(error, UnidentifiedImageError) else str(error).partition("\n")[0]
