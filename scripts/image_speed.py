"""Measure how fast image files are decoded and cropped, beside a plain torchvision ImageFolder + DataLoader.

    python -m scripts.image_speed tree=FOLDER       # an ImageFolder tree: FOLDER/train/CLASS/*, FOLDER/val/CLASS/*

Both have one decoding process and the same crops ([P]'s: 176 pixels, bilinear, no antialiasing, flip), and take turns.
CPU time is what their processes used; on a machine that does other work besides, it is what to compare.
"""

import json
import resource
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from scripts.cli import options, run_main


@dataclass(frozen=True)
class Options:
    """What is measured."""

    tree: str
    images: int = 640  # in each turn
    turns: int = 5
    batch: int = 32


def main(arguments: list[str]) -> None:
    """Print one JSON object: images/s of each turn and the medians, by the clock and by CPU time."""
    given = options(Options, arguments, __doc__)
    measured: dict[str, list[tuple[float, float]]] = {"ours": [], "plain": []}
    for turn in range(given.turns + 1):
        for name, function in (("ours", ours), ("plain", plain)):
            found = function(given)
            if turn:  # the first one fills the disk cache
                measured[name].append(found)
    result: dict[str, Any] = {"images_per_turn": given.images, "turns": given.turns}
    for place, kind in enumerate(("clock", "cpu")):
        rates = {name: [turn[place] for turn in turns] for name, turns in measured.items()}
        result[f"images_per_{kind}_second"] = {name: round(statistics.median(r), 1) for name, r in rates.items()}
        ratios = [a / b for a, b in zip(rates["ours"], rates["plain"], strict=True)]
        result[f"{kind}_ratio_ours_to_plain"] = {
            "median": round(statistics.median(ratios), 3),
            "turns": [round(ratio, 3) for ratio in ratios],
        }
    print(json.dumps(result, indent=1))


def ours(given: Options) -> tuple[float, float]:
    """Images a second by the clock, and by the CPU time of both processes, once the pipeline runs."""
    from scripts.config import load
    from tasks.imagenet.files import FileImages

    settings = load(["task=imagenet", "scale=paper", f"task.dataset={given.tree}", "task.decode_processes=1"]).task
    images = FileImages(settings)
    steps = given.images // given.batch
    sampled = np.random.default_rng(1).integers(len(images.labels), size=(steps + 100, given.batch))
    images.training_batch(lambda step, _: (sampled[step], sampled[step]), 0, 0)
    start, cpu = time.perf_counter(), time.process_time() + images.decoder.cpu_seconds()
    for step in range(1, 1 + steps):
        images.training_batch(lambda step, _: (sampled[step], sampled[step]), step, 0)
    clock = time.perf_counter() - start
    cpu = time.process_time() + images.decoder.cpu_seconds() - cpu
    images.decoder.close()
    return given.images / clock, given.images / cpu


def plain(given: Options) -> tuple[float, float]:
    """The same for what torchvision's users write."""
    import torch
    from torch.utils.data import DataLoader, RandomSampler
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    crop = v2.RandomResizedCrop(176, antialias=False)
    folder = ImageFolder(f"{given.tree}/train", v2.Compose([v2.PILToTensor(), crop, v2.RandomHorizontalFlip()]))
    steps = given.images // given.batch + 1
    sampler = RandomSampler(folder, replacement=True, num_samples=steps * given.batch)
    cpu = _cpu_seconds()
    batches = iter(DataLoader(folder, given.batch, sampler=sampler, num_workers=1, prefetch_factor=3))
    next(batches)
    start = time.perf_counter()
    for _ in batches:
        pass
    clock = time.perf_counter() - start
    del batches  # ends the loader's process, which is counted then
    return given.images / clock, steps * given.batch / (_cpu_seconds() - cpu)


def _cpu_seconds() -> float:
    """Of this process and of those of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    run_main(main)
