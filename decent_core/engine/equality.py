"""What lets a run be repeated and compared bit by bit: seeds, hashes, and equal models on all ranks."""

import hashlib

import torch
from torch import Tensor, nn

from decent_core.engine.communicator import Communicator


def derived_seed(*parts: int) -> int:
    """A 63-bit seed that depends on all parts."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def hash_of(row: Tensor) -> str:
    """sha256 of a row of parameters: equal hashes are equal bits."""
    return hashlib.sha256(row.cpu().contiguous().view(torch.uint8).numpy().data).hexdigest()


def check_equal_structure(model: nn.Module, communicator: Communicator) -> None:
    """All ranks must hold the same tensors in the same order; raises ValueError on every rank otherwise."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    description = repr([(name, tuple(t.shape), str(t.dtype), t.requires_grad) for name, t in tensors])
    digest = hashlib.sha256(description.encode()).hexdigest()
    digests = communicator.each_process(digest, "comparing models")
    if different := [worker for worker, other in enumerate(digests) if other != digests[0]]:
        raise ValueError(
            f"workers {different} built another model than worker 0 (names, shapes, types or frozen parameters)"
        )
