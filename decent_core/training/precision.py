"""Mixed precision of a run."""

from contextlib import AbstractContextManager, nullcontext

import torch

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(precision: str, device: torch.device) -> AbstractContextManager:
    """The context of forward passes under `trainer.precision`: autocast for bf16 and fp16, else nothing."""
    dtype = AUTOCAST.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)
