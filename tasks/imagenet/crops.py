"""Where an image is cut, resized and mirrored: decided here once, whatever decodes it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from tasks.imagenet.settings import Settings

AREAS = (0.08, 1.0)  # of the image
RATIOS = (3 / 4, 4 / 3)  # width to height
LOG_RATIOS = torch.log(torch.tensor(RATIOS)).tolist()

#: (height, width, random seed) of an image -> its crop
Cropping = Callable[[int, int, int], "Crop"]


@dataclass(frozen=True)
class Crop:
    """A window of the image is resized, a square is cut out of that, and perhaps mirrored. In pixels."""

    window: tuple[int, int, int, int]  # top, left, height, width
    resized: tuple[int, int]  # height, width of the window after resizing: bilinear, without antialiasing
    corner: tuple[int, int]  # top, left of the square in the resized window
    side: int
    flipped: bool


def croppings(settings: Settings) -> dict[str, Cropping]:
    """[P]'s crops of each split."""
    return {
        "train": lambda height, width, seed: random_crop(height, width, settings.train_size, seed),
        "validation": lambda height, width, _: centre_crop(
            height, width, settings.validation_resize, settings.validation_size
        ),
    }


def random_crop(height: int, width: int, side: int, seed: int) -> Crop:
    """A window of random area and ratio, resized to a square and mirrored half of the time.

    What torchvision's RandomResizedCrop and RandomHorizontalFlip draw after torch.manual_seed(seed). They draw from
    the global generator, which belongs to training where decoding is done in its process.
    """
    draw = torch.Generator().manual_seed(seed)
    window = _random_window(height, width, draw)
    return Crop(window, (side, side), (0, 0), side, torch.rand(1, generator=draw).item() < 0.5)


def _random_window(height: int, width: int, draw: torch.Generator) -> tuple[int, int, int, int]:
    for _ in range(10):
        area = height * width * torch.empty(1).uniform_(*AREAS, generator=draw).item()
        ratio = torch.empty(1).uniform_(*LOG_RATIOS, generator=draw).exp().item()
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            top = int(torch.randint(height - h + 1, (1,), generator=draw))
            return top, int(torch.randint(width - w + 1, (1,), generator=draw)), h, w
    # The image is too long for most windows: the largest one in its middle.
    h, w = min(height, round(width / RATIOS[0])), min(width, round(height * RATIOS[1]))
    return (height - h) // 2, (width - w) // 2, h, w


def centre_crop(height: int, width: int, shorter: int, side: int) -> Crop:
    """The whole image, resized so that its shorter side is `shorter`, and the square in the middle of that."""
    longer = int(shorter * max(height, width) / min(height, width))
    resized = (longer, shorter) if height > width else (shorter, longer)
    corner = (round((resized[0] - side) / 2), round((resized[1] - side) / 2))
    return Crop((0, 0, height, width), resized, corner, side, False)
