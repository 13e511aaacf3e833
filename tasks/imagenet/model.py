"""The networks: torchvision's ResNet-50, and a small residual network of torchvision's blocks for small images."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from torch import nn
from torchvision.models import resnet50
from torchvision.models.resnet import BasicBlock

from tasks.imagenet.settings import Settings

GROUP = 8  # channels that are normalised together
Norm = Callable[[int], nn.Module]


def build_model(settings: Settings, classes: int) -> nn.Module:
    """[B, C, H, W] normalised images -> [B, classes] logits, weights drawn from torch's global generator."""
    if settings.model == "resnet50":
        return resnet50(num_classes=classes, norm_layer=NORMS[settings.norm])
    assert settings.blocks is not None
    assert settings.width is not None
    return small_resnet(len(settings.mean), settings.blocks, settings.width, classes, NORMS[settings.norm])


def group_norm(channels: int) -> nn.GroupNorm:
    """Wu and He 2018 (arXiv 1803.08494), over groups of 8 channels, or over all where 8 do not divide them."""
    return nn.GroupNorm(1 if channels % GROUP else channels // GROUP, channels)


NORMS: dict[str, Norm] = {"batch": nn.BatchNorm2d, "group": group_norm}


def small_resnet(channels: int, blocks: tuple[int, ...], width: int, classes: int, norm: Norm) -> nn.Sequential:
    """A 3 x 3 stem of stride 2, then stages of `blocks[i]` basic blocks with width * 2^i channels.

    He et al. 2016 (arXiv 1512.03385, section 4.2) have stride 1 in the stem; 2 costs a quarter and fits one CPU core.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers["stem"] = nn.Conv2d(channels, width, kernel_size=3, stride=2, padding=1, bias=False)
    layers["norm"] = norm(width)
    layers["relu"] = nn.ReLU(inplace=True)
    for index, count in enumerate(blocks):
        layers[f"stage{index + 1}"] = _stage(width * 2 ** max(0, index - 1), width * 2**index, count, norm)
    layers["pool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["head"] = nn.Linear(width * 2 ** (len(blocks) - 1), classes)
    network = nn.Sequential(layers)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):  # as torchvision initialises its own
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _stage(inputs: int, outputs: int, count: int, norm: Norm) -> nn.Sequential:
    block = partial(BasicBlock, norm_layer=norm)
    if inputs == outputs:
        return nn.Sequential(*(block(outputs, outputs) for _ in range(count)))
    shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, kernel_size=1, stride=2, bias=False), norm(outputs))
    first = block(inputs, outputs, stride=2, downsample=shortcut)
    return nn.Sequential(first, *(block(outputs, outputs) for _ in range(count - 1)))
