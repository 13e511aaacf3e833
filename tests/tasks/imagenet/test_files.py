"""Images in files: trees, parquet, decoding processes, corrupt images, and what training gets from them."""

import io
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

from tasks.imagenet.decode import decode_rgb
from tasks.imagenet.task import ImageTask
from tests.support.images import DECODERS, encoded, file_settings, picture, published_crops, write_tree
from tests.support.processes import still_running


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return write_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture
def open_task():
    """Builds tasks on files, and ends their processes after the test."""
    tasks = []

    def build(dataset, world_size=1, seed=3, **changes):
        tasks.append(ImageTask(file_settings(dataset, **changes), seed, world_size))
        return tasks[-1]

    yield build
    for task in tasks:
        task._images.decoder.backend.close()


@pytest.fixture(scope="module")
def hub_files(tmp_path_factory, tree):
    """Parquet files as imagenet-1k has them on the hub, with its schema; the rows are not sorted by label."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "data").mkdir()
    names = sorted(path.name for path in (tree / "train").iterdir())
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=names)})
    for split, name in (("train", "train"), ("val", "validation")):
        files = sorted((tree / split).glob("*/*"), key=lambda path: path.name)
        rows = {
            "image": [{"bytes": path.read_bytes(), "path": path.name} for path in files],
            "label": [names.index(path.parent.name) for path in files],
        }
        datasets.Dataset.from_dict(rows, features).to_parquet(folder / "data" / f"{name}-00000-of-00001.parquet")
    return folder


def content(batch):
    return {name: tensor.contiguous().numpy().tobytes() for name, tensor in batch.items()}


@pytest.mark.parametrize(
    ("kind", "mode"), [("JPEG", "RGB"), ("JPEG", "L"), ("JPEG", "CMYK"), ("PNG", "RGB"), ("PNG", "P")]
)
def test_files_of_every_colour_space_are_decoded(kind, mode):
    file = encoded(picture(3, 0), kind, mode)
    expected = np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).astype(int)
    found = decode_rgb(file).permute(1, 2, 0).numpy()
    assert found.shape == (40, 60, 3)
    assert np.array_equal(found, expected)


def test_batches_of_a_tree_are_those_of_image_folder_and_torchvision(tree, open_task):
    """Recomputed here from ImageFolder's list: the same files, labels, crops and flips."""
    task = open_task(tree, world_size=2, seed=5)
    folder = ImageFolder(tree / "train")
    crop = published_crops(file_settings(tree))
    for step, worker in ((0, 0), (0, 1), (4, 1)):
        batch = task.batch(step, worker)
        items, seeds = task._draw(step, worker)
        assert batch["images"].shape == (4, 3, 24, 24)
        for image, label, item, seed in zip(batch["images"], batch["labels"], items, seeds, strict=True):
            path, expected = folder.samples[item]
            assert label == expected
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                assert torch.equal(image, crop["train"](decode_rgb(Path(path).read_bytes())))


def test_every_validation_image_comes_once_with_resize_and_centre_crop(tree, open_task):
    task = open_task(tree, validation_batch=5)
    folder = ImageFolder(tree / "val")
    crop = published_crops(file_settings(tree))["validation"]
    files = {path: Path(path).read_bytes() for path, _ in folder.samples}
    expected = {crop(decode_rgb(files[path])).contiguous().numpy().tobytes(): label for path, label in folder.samples}
    batches = task.validation_batches()
    assert [len(batch["labels"]) for batch in batches] == [4, 4, 4]
    for order in (range(3), range(2, -1, -1), range(0, 3, 2)):
        for index in order:
            images = batches[index]["images"]
            pixels = [image.contiguous().numpy().tobytes() for image in images]
            found = dict(zip(pixels, batches[index]["labels"].tolist(), strict=True))
            assert found.items() <= expected.items()
            assert len(found) == 4
    seen = [image.contiguous().numpy().tobytes() for batch in batches for image in batch["images"]]
    assert sorted(seen) == sorted(expected)


@pytest.mark.parametrize("decoder", DECODERS)
def test_batches_depend_neither_on_processes_nor_on_the_order_of_asking(tree, open_task, decoder):
    steps = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    one = open_task(tree, world_size=2, decode_processes=1, look_ahead=1, decoder=decoder)
    expected = {key: content(one.batch(*key)) for key in steps}
    assert len({batch["images"] for batch in expected.values()}) == len(steps)
    other = open_task(tree, world_size=2, decode_processes=3, look_ahead=4, decoder=decoder)
    for key in [*steps[::-1], (7, 0), *steps, (9, 1)]:  # a look back and a jump, as evaluation and resuming make them
        batch = content(other.batch(*key))
        assert batch == expected.get(key, batch)
    alone = open_task(tree, decoder=decoder)
    joined = {name: torch.cat([one.batch(2, w)[name] for w in (0, 1)]) for name in ("images", "labels")}
    assert content(alone.batch(2, 0)) == content(joined)


@pytest.mark.parametrize("decoder", DECODERS)
def test_look_ahead_stays_within_its_bound(tree, open_task, decoder):
    task = open_task(tree, world_size=2, look_ahead=3, decoder=decoder)
    ahead = task._images._ahead
    for step in range(4):
        for worker in (0, 1):
            task.batch(step, worker)
        assert sorted(ahead) == [(later, worker) for later in range(step + 1, step + 4) for worker in (0, 1)]
    task.batch(0, 0)  # a look back leaves it alone
    assert len(ahead) == 6
    task.batch(50, 0)
    assert sorted(ahead) == [(51, 0), (52, 0), (53, 0)]


@pytest.mark.parametrize("decoder", DECODERS)
def test_corrupt_images_are_named_and_counted_and_left_out(tmp_path, open_task, caplog, decoder):
    root = write_tree(tmp_path, classes=2)
    whole = (root / "train/class_0/001.JPEG").read_bytes()
    (root / "train/class_0/001.JPEG").write_bytes(whole[: len(whole) // 2])
    (root / "train/class_1/004.JPEG").write_bytes(b"")
    (root / "val/class_0/007.JPEG").write_bytes(b"no image at all")
    task = open_task(root, max_corrupt=3, global_batch=12, validation_batch=3, decoder=decoder)
    with caplog.at_level(logging.WARNING):
        for step in range(3):  # an epoch each
            batch = task.batch(step, 0)
            assert batch["labels"].bincount().tolist() == [5, 5]
            assert len(batch["images"]) == task.weight(batch) == 10
        assert sum(len(batch["labels"]) for batch in task.validation_batches()) == 5
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3, "each is named once"
    assert any("train/class_0/001.JPEG" in text and "truncated" in text.lower() for text in said)
    assert any("train/class_1/004.JPEG: not an image" in text for text in said)
    assert said[2].startswith("unreadable image 3 (task.max_corrupt=3)")
    assert "val/class_0/007.JPEG" in said[2]


@pytest.mark.parametrize("decoder", DECODERS)
def test_more_corrupt_images_than_allowed_end_the_run(tmp_path, open_task, decoder):
    root = write_tree(tmp_path, classes=2)
    for name in ("000", "003"):
        (root / f"train/class_1/{name}.JPEG").write_bytes(b"x" * 500)
    task = open_task(root, max_corrupt=1, global_batch=12, decoder=decoder)
    with pytest.raises(ValueError, match=r"2 images can't be read, more than task.max_corrupt=1.*class_1/00[03].JPEG"):
        task.batch(0, 0)


@pytest.mark.parametrize("decoder", DECODERS)
def test_parquet_files_of_the_hub_give_the_same_images_as_the_tree(
    tree, hub_files, open_task, tmp_path, monkeypatch, decoder
):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    hub, folder = open_task(hub_files, decoder=decoder), open_task(tree, decoder=decoder)
    assert hub._images.classes == 4
    for batches in (
        [hub.batch(0, 0), folder.batch(0, 0)],
        [hub.validation_batches()[0], folder.validation_batches()[0]],
    ):
        assert content(batches[0]) == content(batches[1])
    rows = hub._images._splits["train"]
    assert rows.reader.describe(rows.references(np.array([0]))[0]) == f"{hub_files} train row 0"


def test_wrong_data_sets_are_refused_with_what_works(tree, tmp_path, open_task):
    with pytest.raises(ValueError, match=r"nowhere.*Give an ImageFolder tree"):
        open_task(tmp_path / "nowhere")
    (tmp_path / "text").mkdir()
    for name in ("train", "validation"):
        (tmp_path / "text" / f"{name}.jsonl").write_text('{"text": "no image"}\n')
    with pytest.raises(ValueError, match=r"needs columns image \(Image\) and label \(ClassLabel\)"):
        open_task(tmp_path / "text")
    root = write_tree(tmp_path / "tree", classes=2)
    (root / "val/class_1").rename(root / "val/class_2")
    with pytest.raises(ValueError, match=r"have other classes.*class_1.*class_2"):
        open_task(root)
    with pytest.raises(ValueError, match=r"task.dataset=ilsvrc is not prepared.*scripts.prepare"):
        open_task("ilsvrc", data_dir=str(tmp_path))


ORPHAN = """
import os, sys, time
from tasks.imagenet.task import ImageTask
from tests.support.images import file_settings
if __name__ == "__main__":
    task = ImageTask(file_settings(sys.argv[1], decode_processes=1), 3, 1)
    task.batch(0, 0)
    print(*task._images.decoder.backend._pool._processes, flush=True)
    time.sleep(60)
"""


def test_decoding_processes_end_with_a_killed_parent(tree, tmp_path):
    (tmp_path / "orphan.py").write_text(ORPHAN)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, str(tmp_path / "orphan.py"), str(tree)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        child = int(parent.stdout.readline())
        os.kill(child, 0)
        parent.send_signal(signal.SIGKILL)
    assert not still_running([child])


@pytest.mark.parametrize("decode_processes", [1, 3])
def test_training_whose_decoding_process_is_killed_ends_and_says_so(tree, open_task, decode_processes):
    task = open_task(tree, decode_processes=decode_processes)
    task.batch(0, 0)
    victim, *_ = task._images.decoder.backend._pool._processes
    os.kill(victim, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="a process that decodes images has died"):
        [task.batch(step, 0) for step in range(1, 50)]
    assert time.monotonic() - began < 30


WARNED = """
import sys, time
from decent_core.system.signals import StopRequest
from tasks.imagenet.task import ImageTask
from tests.support.images import file_settings
if __name__ == "__main__":
    stop = StopRequest().listen()
    task = ImageTask(file_settings(sys.argv[1], decode_processes=1), 3, 1)
    task.batch(0, 0)
    print("ready", flush=True)
    while not stop:
        time.sleep(0.01)
    time.sleep(0.5)
    print(stop.name, [len(task.batch(step, 0)["images"]) for step in range(1, 20)])
    task._images.decoder.backend.close()
"""


def start_warned(tree, tmp_path, **pipes):
    """WARNED in a session of its own, with its decoding process under way."""
    (tmp_path / "warned.py").write_text(WARNED)
    command = [sys.executable, str(tmp_path / "warned.py"), str(tree)]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True, **pipes)
    assert run.stdout.readline() == "ready\n"
    return run


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_stop_signal_to_all_processes_ends_no_decoding_process(tree, tmp_path, number):
    """Slurm warns all processes of a job, and torchrun ends all of a rank's session."""
    with start_warned(tree, tmp_path) as run:
        os.killpg(run.pid, number)
        said, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    assert said.startswith(f"{number.name} [")


def test_ctrl_c_is_said_once(tree, tmp_path):
    with start_warned(tree, tmp_path, stderr=subprocess.PIPE) as run:
        os.killpg(run.pid, signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert errors.count("Traceback") == 1, errors  # the main process's own
