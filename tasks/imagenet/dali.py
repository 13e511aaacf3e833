"""Decodes batches with NVIDIA DALI, in threads of the training process: on its GPU, or on the CPU if it has none.

Files are read and crops drawn here; DALI decodes the windows, resizes, cuts and mirrors. It draws no random numbers and
keeps nothing from one batch to the next, so a batch depends on its files and seeds alone.
"""

import importlib
import io
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tasks.imagenet.crops import Crop, croppings
from tasks.imagenet.decode import UNREADABLE, Decoded, Reader, decode_rgb, shares, why
from tasks.imagenet.settings import Settings

END_OF_JPEG = b"\xff\xd9"


@dataclass(frozen=True)
class File:
    """An image file, and where it is cut or why it can't be read."""

    name: str
    content: bytes = b""
    crop: Crop | None = None
    problem: str | None = None


class Dali:
    """See `loader.Backend`; ValueError if DALI is not installed.

    On a GPU it decodes with nvJPEG and on the CPU with libjpeg-turbo, as Pillow does. Either way the batch is handed
    over in the CPU's memory: the way there and back is short beside decoding, and no stream has to wait for another.
    """

    def __init__(self, settings: Settings, readers: dict[str, Reader]) -> None:
        self._dali = _import_dali()
        self._threads, self._readers, self._croppings = settings.decode_processes, readers, croppings(settings)
        # Asked for here, because another thread's current GPU is the first one.
        self._device = torch.cuda.current_device() if torch.cuda.is_available() else None
        self._pipelines: dict[str, Any] = {}  # by split
        self._reading = ThreadPoolExecutor(self._threads, "read-images")
        self._decoding = ThreadPoolExecutor(1, "decode-images")  # DALI has threads of its own

    def submit(self, split: str, references: Sequence[Any], seeds: Sequence[int]) -> list[Future[Decoded]]:
        parts = [
            self._reading.submit(self._read, split, references[part], seeds[part])
            for part in shares(len(references), self._threads)
        ]
        return [self._decoding.submit(self._decode, split, parts)]

    def cpu_seconds(self) -> float:
        return self._decoding.submit(lambda: 0.0).result()

    def close(self) -> None:
        for pool in (self._decoding, self._reading):
            pool.shutdown(cancel_futures=True)

    def _read(self, split: str, references: Sequence[Any], seeds: Sequence[int]) -> list[File]:
        reader, files = self._readers[split], []
        for reference, seed in zip(references, seeds, strict=True):
            name = reader.describe(reference)
            try:
                content = reader.read(reference)
                files.append(File(name, content, self._croppings[split](*_size(content), seed)))
            except UNREADABLE as error:
                files.append(File(name, problem=why(error)))
        return files

    def _decode(self, split: str, parts: list[Future[list[File]]]) -> Decoded:
        files = [file for part in parts for file in part.result()]
        try:
            return self._decode_sound(split, files)
        except RuntimeError:  # one file that DALI can't decode fails them all
            return self._decode_sound(split, [self._tried(split, file) for file in files])

    def _decode_sound(self, split: str, files: Sequence[File]) -> Decoded:
        kept = [index for index, file in enumerate(files) if file.problem is None]
        corrupt = [(file.name, file.problem) for file in files if file.problem is not None]
        return Decoded(self._run(split, [files[index] for index in kept]) if kept else None, kept, corrupt)

    def _tried(self, split: str, file: File) -> File:
        """The file, with what is wrong with it if DALI can't decode it alone."""
        try:
            self._decode_sound(split, [file])
        except RuntimeError:
            return replace(file, problem=_damage(file.content))
        return file

    def _run(self, split: str, files: Sequence[File]) -> Tensor:
        """uint8 [B, 3, side, side], contiguous; RuntimeError if DALI can't decode one of the files."""
        crops = [file.crop for file in files if file.crop is not None]
        pipeline = self._pipelines.get(split)
        if pipeline is None or pipeline.max_batch_size < len(files):
            pipeline = self._pipelines[split] = self._build(len(files), crops[0].side)
        try:
            (images,) = pipeline.run(
                content=[np.frombuffer(file.content, np.uint8) for file in files],
                start=np.array([crop.window[:2] for crop in crops], np.int32),
                shape=np.array([crop.window[2:] for crop in crops], np.int32),
                resized=np.array([crop.resized for crop in crops], np.float32),
                corner=np.array([crop.corner for crop in crops], np.int32),
                flipped=np.array([crop.flipped for crop in crops], np.int32),
            )
        except RuntimeError:
            del self._pipelines[split]  # it is not valid any more
            raise
        # In the memory order that the other decoder's have, whatever DALI's is: a model's arithmetic depends on it, and
        # convolutions of few channels over channels-last images crash in torch 2.14.1 on CPUs with AVX2 alone.
        return torch.from_numpy(images.as_cpu().as_array()).permute(0, 3, 1, 2).contiguous()

    def _build(self, batch: int, side: int) -> Any:
        """The pipeline for at most `batch` images. Its inputs are named as the fields of `Crop`."""
        fn, types = self._dali.fn, self._dali.types
        pipeline = self._dali.Pipeline(batch, self._threads, self._device, prefetch_queue_depth=1)
        with pipeline:
            names = ("content", "start", "shape", "resized", "corner", "flipped")
            content, start, shape, resized, corner, flipped = (fn.external_source(name=name) for name in names)
            # As Pillow does it: the orientation that a camera has noted is left aside, and colours are interpolated.
            # Which images a GPU's hardware decoder gets is DALI's choice; with none, equal batches have equal bits.
            images = fn.decoders.image_slice(
                content, device="cpu" if self._device is None else "mixed", start=start, shape=shape, axis_names="HW",
                output_type=types.RGB, adjust_orientation=False, jpeg_fancy_upsampling=True, hw_decoder_load=0.0,
            )  # fmt: skip
            images = fn.resize(images, size=resized, interp_type=types.INTERP_LINEAR, antialias=False)
            images = fn.slice(images, start=corner, shape=(side, side), axis_names="HW")
            pipeline.set_outputs(fn.flip(images, horizontal=flipped))
        pipeline.build()
        return pipeline


def _size(content: bytes) -> tuple[int, int]:
    """Height and width as the header says; one of `UNREADABLE` if there is none, or if a JPEG file is cut off.

    DALI may not notice that a file is cut off behind the window.
    """
    with Image.open(io.BytesIO(content)) as image:
        if image.format == "JPEG" and not content.endswith(END_OF_JPEG):
            image.load()
        return image.height, image.width


def _damage(content: bytes) -> str:
    try:
        decode_rgb(content)
    except UNREADABLE as error:
        return why(error)
    return "DALI can't decode it, task.decoder=torchvision can"


def _import_dali() -> Any:
    try:
        return importlib.import_module("nvidia.dali")
    except ImportError as error:
        raise ValueError(
            f"task.decoder=dali needs NVIDIA DALI, which can't be imported ({error}). Install it with make setup-dali, "
            "or give task.decoder=torchvision."
        ) from error
