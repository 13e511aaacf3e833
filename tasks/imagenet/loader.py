"""Decodes batches ahead of the training step that needs them, in processes of their own or by DALI."""

import logging
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cached_property
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from decent_core.system.signals import STOP_SIGNALS
from tasks.common.parallel import signals_blocked
from tasks.imagenet.dali import Dali
from tasks.imagenet.decode import Decoded, Reader, decode, shares, start
from tasks.imagenet.settings import Settings

log = logging.getLogger(__name__)

#: the parts of a batch that is being decoded, and its labels [B]
Ordered = tuple[list[Future[Decoded]], np.ndarray]


class Backend(Protocol):
    """What decodes; it starts with the first batch."""

    def submit(self, split: str, references: Sequence[Any], seeds: Sequence[int]) -> list[Future[Decoded]]:
        """Begin to decode a batch; equally large parts of it come, but for the last."""

    def cpu_seconds(self) -> float:
        """CPU time that one of its processes has used, once it has done what was ordered; 0 if it has none."""

    def close(self) -> None:
        """End its processes and threads; what was ordered is dropped."""


class _Process(ForkServerProcess):
    """It does not hear SIGTERM, by which an executor ends those that are left when one has died."""

    def terminate(self) -> None:
        self.kill()


class _Context(ForkServerContext):
    Process = _Process


class Processes:
    """Decoding processes, which share each batch out among them; see `tasks.imagenet.decode`."""

    def __init__(self, settings: Settings, readers: dict[str, Reader]) -> None:
        self._settings, self._readers = settings, readers

    @cached_property
    def _pool(self) -> ProcessPoolExecutor:
        context = _Context()
        context.set_forkserver_preload(["tasks.imagenet.decode"])  # torchvision is imported once, not in each process
        # Schedulers and torchrun signal every process of a job, a terminal too. It is for those that train: they save a
        # checkpoint, for which they need their next batch.
        with signals_blocked([signal.SIGINT, *STOP_SIGNALS]):
            forkserver.ensure_running()
        arguments = (self._settings, self._readers)
        return ProcessPoolExecutor(self._settings.decode_processes, context, initializer=start, initargs=arguments)

    def submit(self, split: str, references: Sequence[Any], seeds: Sequence[int]) -> list[Future[Decoded]]:
        parts = shares(len(references), self._settings.decode_processes)
        with _naming_the_dead():
            return [self._pool.submit(decode, split, references[part], seeds[part]) for part in parts]

    def cpu_seconds(self) -> float:
        return self._pool.submit(time.process_time).result()

    def close(self) -> None:
        if "_pool" in self.__dict__:
            self._pool.shutdown(cancel_futures=True)


@contextmanager
def _naming_the_dead() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise RuntimeError(
            "a process that decodes images has died; if the system ended it for want of memory, fewer "
            "task.decode_processes need less"
        ) from None


BACKENDS: dict[str, Callable[[Settings, dict[str, Reader]], Backend]] = {"torchvision": Processes, "dali": Dali}


class Decoder:
    """Batches that are being decoded by `task.decoder`, and the count of what could not be read."""

    def __init__(self, settings: Settings, readers: dict[str, Reader]) -> None:
        self.backend = BACKENDS[settings.decoder](settings, readers)
        self._max_corrupt = settings.max_corrupt
        self.corrupt: dict[str, str] = {}  # image -> why it could not be read

    def order(self, split: str, references: Sequence[Any], labels: np.ndarray, seeds: np.ndarray) -> Ordered:
        """Begin to decode a batch."""
        return self.backend.submit(split, references, seeds.tolist()), labels

    def receive(self, ordered: Ordered) -> dict[str, Tensor]:
        """Wait for a batch, {images, labels}. Images that can't be read are left out, named on the log, and counted.

        ValueError if there have been more of them than `task.max_corrupt`, or if nothing of the batch is left.
        """
        futures, labels = ordered
        with _naming_the_dead():
            parts = [future.result() for future in futures]
        for name, reason in (problem for part in parts for problem in part.corrupt):
            self._count(name, reason)
        size = len(parts[0].kept) + len(parts[0].corrupt)
        kept = [number * size + index for number, part in enumerate(parts) for index in part.kept]
        if not kept:
            raise ValueError(f"No image of a batch of {len(labels)} can be read: {self._newest()}.")
        pixels = torch.cat([part.pixels for part in parts if part.pixels is not None])
        return {"images": pixels, "labels": torch.from_numpy(labels[kept])}

    def drop(self, ordered: Ordered) -> None:
        """Forget a batch that nobody will ask for."""
        for future in ordered[0]:
            future.cancel()

    def _count(self, name: str, reason: str) -> None:
        if name in self.corrupt:
            return
        self.corrupt[name] = reason
        limit = self._max_corrupt
        log.warning("unreadable image %d (task.max_corrupt=%d): %s: %s", len(self.corrupt), limit, name, reason)
        if len(self.corrupt) > limit:
            raise ValueError(
                f"{len(self.corrupt)} images can't be read, more than task.max_corrupt={limit} allows; the last is "
                f"{self._newest()}. Repair the data set, or allow more."
            )

    def _newest(self) -> str:
        return ": ".join(list(self.corrupt.items())[-1])
