"""NVIDIA DALI beside torchvision: the same images up to rounding, and what happens where it can't do its work."""

import logging
import sys

import pytest
import torch
from PIL import Image

from decent_core.config.command_line import run_main
from scripts.train import main
from tasks.imagenet.task import ImageTask
from tests.support import needs
from tests.support.images import encoded, file_settings, picture, settings, write_tree


@pytest.fixture
def both():
    """Builds a task for each decoder, and ends their processes and threads after the test."""
    tasks = []

    def build(dataset, world_size=1, **changes):
        made = [ImageTask(file_settings(dataset, decoder=d, **changes), 3, world_size) for d in ("torchvision", "dali")]
        tasks.extend(made)
        return made

    yield build
    for task in tasks:
        task._images.decoder.backend.close()


def assert_alike(ours, dalis):
    """The same labels and crops: no pixel more than one of 255 levels apart, and levels not shifted."""
    assert torch.equal(ours["labels"], dalis["labels"])
    assert dalis["images"].stride() == ours["images"].stride()
    difference = dalis["images"].int() - ours["images"].int()
    assert difference.abs().max() <= 1
    assert difference.float().mean().abs() < 0.25


def large_tree(root):
    """Images larger and smaller than the crops, of several formats and colour spaces, under ImageNet's names."""
    kinds = [("JPEG", "RGB"), ("JPEG", "L"), ("JPEG", "CMYK"), ("PNG", "RGB"), ("PNG", "P")]
    for split in ("train", "val"):
        for label in (0, 1):
            folder = root / split / f"class_{label}"
            folder.mkdir(parents=True)
            for number in range(10):
                pixels = picture(label, number, 90 + 41 * number, 330 - 29 * number)
                (folder / f"{number}.JPEG").write_bytes(encoded(pixels, *kinds[number % 5]))
    return root


@needs.dali
def test_images_are_torchvisions_up_to_rounding(tmp_path, both):
    sizes = {"train_size": 176, "validation_resize": 256, "validation_size": 224, "validation_batch": 7}
    ours, dalis = both(large_tree(tmp_path), world_size=2, global_batch=20, **sizes)
    for step in (5, 0, 1):  # a task that begins in the middle of a run
        for worker in (1, 0):
            assert_alike(ours.batch(step, worker), dalis.batch(step, worker))
    for index in (2, 0, 1):  # the last one is the smallest
        assert_alike(ours.validation_batches()[index], dalis.validation_batches()[index])


@needs.dali
def test_the_training_process_keeps_its_random_numbers(tmp_path, both):
    _, dalis = both(write_tree(tmp_path))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    dalis.batch(0, 0)
    assert torch.equal(torch.get_rng_state(), before)


@needs.dali
def test_damaged_files_are_those_that_torchvision_names_for_the_same_reasons(tmp_path, both, caplog):
    """A file cut off behind every window is one of them, and one that is damaged where no header shows it."""
    root = write_tree(tmp_path, classes=2)
    good, png = encoded(picture(0, 0, 200, 160)), encoded(picture(0, 0), "PNG")
    for name, damaged in {"000": good[:-2], "001": b"", "002": png[: len(png) // 2], "003": b"no image"}.items():
        (root / f"train/class_0/{name}.JPEG").write_bytes(damaged)
    (root / "train/class_1/000.JPEG").write_bytes(good + bytes(9))  # whole, with something behind it
    ours, dalis = both(root, global_batch=12, max_corrupt=4)
    with caplog.at_level(logging.WARNING):
        for step in range(2):
            assert_alike(ours.batch(step, 0), dalis.batch(step, 0))
    assert len(dalis.batch(2, 0)["labels"]) == 8
    assert dalis._images.decoder.corrupt == ours._images.decoder.corrupt
    assert len(ours._images.decoder.corrupt) == 4


@needs.dali
def test_formats_that_dali_cannot_decode_are_named(tmp_path, both):
    root = write_tree(tmp_path, classes=2)
    Image.fromarray(picture(0, 0)).save(root / "train/class_0/000.JPEG", "GIF")
    ours, dalis = both(root, global_batch=12, max_corrupt=1)
    assert (len(ours.batch(0, 0)["labels"]), len(dalis.batch(0, 0)["labels"])) == (12, 11)
    assert list(dalis._images.decoder.corrupt.values()) == ["DALI can't decode it, task.decoder=torchvision can"]


@needs.dali
def test_dali_has_on_a_gpu_what_is_asked_of_it_on_a_cpu():
    """No GPU is needed to know which devices an operator has."""
    from nvidia.dali import ops

    assert {"decoders__ImageSlice"} <= set(ops.mixed_ops())
    assert {"Resize", "Slice", "Flip"} <= set(ops.gpu_ops())


def test_dali_that_is_not_installed_is_one_message(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nvidia.dali", None)  # Python's own way of saying that there is none
    sizes = ["task.padding=0", "task.mean=[.5,.5,.5]", "task.std=[.2,.2,.2]", "task.train_images=null"]
    files = [f"task.dataset={write_tree(tmp_path / 'tree')}", "task.validation_images=null", "task.decoder=dali"]
    monkeypatch.setattr(sys, "argv", ["train", "task=imagenet", "scale=smoke", f"out={tmp_path}/run", *sizes, *files])
    with pytest.raises(SystemExit) as ended:
        run_main(main)
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "task.decoder=dali needs NVIDIA DALI" in said
    assert "make setup-dali, or give task.decoder=torchvision" in said


def test_images_in_memory_need_no_decoder():
    with pytest.raises(ValueError, match=r"task.decoder=dali decodes image files.*fashion_mnist_12k holds none"):
        settings(decoder="dali")
