"""Measure how fast image files are decoded and cropped, beside a plain torchvision ImageFolder + DataLoader.

    python -m scripts.bench images tree=FOLDER       # an ImageFolder tree: FOLDER/train/CLASS/*, FOLDER/val/CLASS/*
    python -m scripts.bench images tree=FOLDER decoders=[torchvision,dali]

Each has one decoding process or thread and the same crops ([P]'s: 176 pixels, bilinear, no antialiasing, flip); they
take turns. CPU time is what their processes used; on a machine that does other work besides, it is what to compare.
"""

import json
import resource
import statistics
import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Options:
    """What is measured."""

    tree: str
    decoders: tuple[Literal["torchvision", "dali"], ...] = ("torchvision",)
    images: int = 640  # in each turn
    turns: int = 5
    batch: int = 32


def run(given: Options) -> int:
    """Print one JSON object: images/s of each turn and the medians, by the clock and by CPU time."""
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in (*given.decoders, "plain")}
    for turn in range(given.turns + 1):
        for name, turns in measured.items():
            found = plain(given) if name == "plain" else ours(given, name)
            if turn:  # the first one fills the disk cache
                turns.append(found)
    result: dict[str, Any] = {"images_per_turn": given.images, "turns": given.turns}
    for place, kind in enumerate(("clock", "cpu")):
        rates = {name: [turn[place] for turn in turns] for name, turns in measured.items()}
        result[f"images_per_{kind}_second"] = {name: round(statistics.median(r), 1) for name, r in rates.items()}
        ratios = {n: [a / b for a, b in zip(rates[n], rates["plain"], strict=True)] for n in given.decoders}
        result[f"{kind}_ratio_to_plain"] = {
            name: {"median": round(statistics.median(turns), 3), "turns": [round(ratio, 3) for ratio in turns]}
            for name, turns in ratios.items()
        }
    print(json.dumps(result, indent=1))
    return 0


def ours(given: Options, decoder: str) -> tuple[float, float]:
    """Images a second by the clock, and by the CPU time of all processes, once the pipeline runs."""
    from decent_core.config.load import load
    from tasks.imagenet.files import FileImages

    chosen = [f"task.dataset={given.tree}", f"task.decoder={decoder}", "task.decode_processes=1"]
    images = FileImages(load(["task=imagenet", "scale=paper", *chosen]).task)
    backend = images.decoder.backend
    steps = given.images // given.batch
    sampled = np.random.default_rng(1).integers(len(images.labels), size=(steps + 100, given.batch))
    images.training_batch(lambda step, _: (sampled[step], sampled[step]), 0, 0)
    start = time.perf_counter()  # nothing but the first batch need be ready, as with `plain`
    cpu = backend.cpu_seconds() + time.process_time()
    for step in range(1, 1 + steps):
        images.training_batch(lambda step, _: (sampled[step], sampled[step]), step, 0)
    clock = time.perf_counter() - start
    cpu = backend.cpu_seconds() + time.process_time() - cpu
    backend.close()
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
