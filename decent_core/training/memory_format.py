"""Channels-last memory for convolutions."""

import torch
from torch import nn

LEAST_CHANNELS = 8  # on a CPU: torch 2.14's backward convolution writes past its memory with fewer


def use_channels_last(model: nn.Module, device: torch.device) -> None:
    """Lay out the model's images and filters channel by channel.

    Raises ValueError on a CPU for a convolution of so few output channels that torch would crash there.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d) and device.type == "cpu" and module.out_channels < LEAST_CHANNELS:
            raise ValueError(
                f"trainer.channels_last=true: the convolution {name} has {module.out_channels} output channels, and "
                f"torch crashes on a CPU with fewer than {LEAST_CHANNELS}; give a wider network, or channels_last=false"
            )
    model.to(memory_format=torch.channels_last)
