"""Flat parameter rows: where each trainable parameter of a model lies in a vector of D elements."""

from bisect import bisect_left

import torch
from torch import Tensor, nn

ALIGNMENT = 16  # elements; keeps every tensor on a 64-byte boundary in float32, as matrix kernels want it


class FlatLayout:
    """The trainable parameters of a model, in `model.parameters()` order, each at an aligned offset of a flat row.

    Tied weights appear once; frozen parameters do not appear. A parameter keeps its memory format (channels_last too).
    Raises ValueError for a model without trainable parameters or with several parameter types.
    """

    def __init__(self, model: nn.Module):
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        kinds = {(p.dtype, p.device) for p in self.parameters}
        if len(kinds) != 1:
            raise ValueError(
                f"all trainable parameters must share one dtype and device; the model has {sorted(map(str, kinds))}"
            )
        ((self.dtype, self.device),) = kinds
        self.offsets, self.size = [], 0
        for parameter in self.parameters:
            self.offsets.append(self.size)
            self.size += -(-parameter.numel() // ALIGNMENT) * ALIGNMENT
        self.strides = [_dense_strides(p) for p in self.parameters]

    def views(self, row: Tensor) -> list[Tensor]:
        """One view of `row` [D] for each parameter, in its shape and memory format."""
        start = row.storage_offset()
        placed = zip(self.parameters, self.strides, self.offsets, strict=True)
        return [row.as_strided(p.size(), stride, start + offset) for p, stride, offset in placed]

    def first_within(self, elements: int) -> int:
        """The number of the first parameter that lies within the last `elements` of a row; their count if none does."""
        return bisect_left(self.offsets, self.size - elements)

    def starts(self, number: int) -> int:
        """The element of a row with which a parameter starts; behind the last one, the row's length."""
        return self.offsets[number] if number < len(self.offsets) else self.size

    def flatten(self, tensors: list[Tensor | None], out: Tensor) -> Tensor:
        """Write one tensor a parameter into `out` [D]; None and the gaps of the alignment become zero."""
        out.zero_()
        for view, tensor in zip(self.views(out), tensors, strict=True):
            if tensor is not None:
                view.copy_(tensor)
        return out


def _dense_strides(parameter: Tensor) -> tuple[int, ...]:
    """The parameter's own strides if they cover its memory without gaps, else those of a contiguous tensor."""
    expected = 1
    for size, stride in sorted(zip(parameter.size(), parameter.stride(), strict=True), key=lambda pair: pair[1]):
        if size > 1 and stride != expected:
            return torch.empty(parameter.size(), device="meta").stride()
        expected *= size
    return parameter.stride()
