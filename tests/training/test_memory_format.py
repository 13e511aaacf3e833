"""Channels-last memory, and the narrow convolutions with which torch crashes on a CPU."""

import pytest
import torch
from torch import nn

from decent_core.training.memory_format import LEAST_CHANNELS, use_channels_last
from scripts.train import main

CPU = torch.device("cpu")


def test_wide_convolutions_are_laid_out_by_channel():
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.Conv2d(16, LEAST_CHANNELS, 3))
    use_channels_last(model, CPU)
    assert all(layer.weight.is_contiguous(memory_format=torch.channels_last) for layer in model)


def test_a_narrow_convolution_is_refused_by_name_on_a_cpu_alone():
    model = nn.Sequential(nn.Conv2d(16, 16, 3), nn.Conv2d(16, 4, 3))
    with pytest.raises(ValueError, match=r"the convolution 1 has 4 output channels, and torch crashes on a CPU"):
        use_channels_last(model, CPU)
    use_channels_last(model, torch.device("cuda"))


def test_a_run_with_narrow_convolutions_is_refused(tmp_path):
    arguments = ["task=imagenet", "scale=smoke", "trainer.channels_last=true", f"out={tmp_path / 'run'}"]
    with pytest.raises(ValueError, match=r"trainer.channels_last=true: the convolution .* has 4 output channels"):
        main(arguments)
