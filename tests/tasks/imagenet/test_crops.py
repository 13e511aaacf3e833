"""Crops, against what torchvision's own transforms draw and cut."""

import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tasks.imagenet.crops import croppings
from tasks.imagenet.decode import cut
from tests.support.images import file_settings, published_crops

SIDES = st.integers(1, 400)
SEEDS = st.integers(0, 2**62 - 1)


def test_the_reference_is_the_published_one():
    training, validation = published_crops(
        file_settings("x", train_size=176, validation_resize=256, validation_size=224)
    ).values()
    crop, flip = training.transforms
    assert (crop.size, crop.scale, crop.ratio, flip.p) == ((176, 176), (0.08, 1.0), (3 / 4, 4 / 3), 0.5)
    assert (validation.transforms[0].size, validation.transforms[1].size) == ([256], (224, 224))
    for resize in (crop, validation.transforms[0]):
        assert (resize.interpolation, resize.antialias) == ("bilinear", False)


def places(height, width):
    """An image whose pixels say where they are, uint8 [3, height, width]."""
    rows, columns = torch.arange(height)[:, None], torch.arange(width)
    planes = [rows.expand(height, width), columns.expand(height, width), rows * 7 + columns * 13]
    return torch.stack(planes).remainder(256).to(torch.uint8)


@examples(max_examples=80, deadline=None)
@given(SIDES, SIDES, SEEDS)
def test_training_crops_are_those_of_torchvision_after_the_same_seed(height, width, seed):
    """Bit by bit; images so long that no window fits are among them."""
    image, of = places(height, width), file_settings("x")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        expected = published_crops(of)["train"](image)
        state = torch.get_rng_state()
        crop = croppings(of)["train"](height, width, seed)
        assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"
    assert torch.equal(cut(image, crop), expected)


@examples(max_examples=40, deadline=None)
@given(SIDES, SIDES, st.integers(8, 40), st.integers(0, 20))
def test_validation_crops_are_those_of_torchvision(height, width, side, around):
    of = file_settings("x", validation_resize=side + around, validation_size=side)
    image = places(height, width)
    expected = published_crops(of)["validation"](image)
    assert torch.equal(cut(image, croppings(of)["validation"](height, width, 0)), expected)
