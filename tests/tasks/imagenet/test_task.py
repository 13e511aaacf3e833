"""The image task: embedded data, augmentation, shares of the workers, losses, metrics and networks."""

import hashlib
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from torch import nn

from decent_core.optim import parameter_groups
from tasks import assets
from tasks.imagenet.fashion import load_split
from tasks.imagenet.model import build_model
from tasks.imagenet.shards import by_label, dirichlet
from tests.support.images import settings, task


def test_embedded_images_are_the_derived_ones_balanced_and_licensed():
    notice = json.loads((assets.FOLDER / "fashion_mnist_12k.json").read_text())
    assert notice["sha256_uncompressed"] == "4e328fe8f213d9f093e84c877029f40db376c637637368d7e8762ed0b047763a"
    assert hashlib.sha256(assets.read("fashion_mnist_12k")).hexdigest() == notice["sha256_uncompressed"]
    assert "2017, Zalando SE" in notice["licence"]
    assert "Permission is hereby granted" in notice["licence"]
    for name, each in (("train", 1200), ("validation", 200)):
        split = load_split(settings(), name)
        assert np.bincount(split.labels).tolist() == [each] * 10
        assert np.array_equal(split.labels, np.sort(split.labels))
        assert len(np.unique(split.images.reshape(len(split.images), -1), axis=0)) >= 0.999 * len(split.images)
        pixels = split.images / 255
        assert pixels.mean() == pytest.approx(0.2860, abs=0.004)
        assert pixels.std() == pytest.approx(0.3530, abs=0.004)


def test_no_validation_image_is_trained_on():
    train, validation = (
        {image.tobytes() for image in load_split(settings(), name).images} for name in ("train", "validation")
    )
    assert not train & validation


def augmented_slowly(image: np.ndarray, padding: int, top: int, left: int, flip: bool) -> np.ndarray:
    canvas = np.zeros((28 + 2 * padding, 28 + 2 * padding), np.uint8)
    canvas[padding : padding + 28, padding : padding + 28] = image
    crop = canvas[top : top + 28, left : left + 28]
    return crop[:, ::-1] if flip else crop


def test_every_crop_and_flip_of_the_image_occurs_and_nothing_else():
    few = task(train_images=10, global_batch=20_000)
    split = load_split(settings(), "train")
    originals = split.images[np.arange(10) * 1200]
    batch = few.batch(0, 0)
    options = {
        augmented_slowly(originals[0], 2, top, left, flip).tobytes(): (top, left, flip)
        for top in range(5) for left in range(5) for flip in (False, True)
    }  # fmt: skip
    seen = [options[pixels.numpy().tobytes()] for pixels in batch["images"][batch["labels"] == 0, 0]]
    assert len(seen) == 2000
    assert set(seen) == set(options.values())
    assert batch["images"].dtype == torch.uint8


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_iid_batches_of_all_workers_are_one_workers_batch_whatever_their_number(workers):
    for step in (0, 7, 31):  # an epoch has 15 steps
        parts = [task(workers).batch(step, worker) for worker in range(workers)]
        whole = task(1).batch(step, 0)
        for name in whole:
            assert torch.equal(torch.cat([part[name] for part in parts]), whole[name])


@pytest.mark.parametrize("sharding", ["iid", "by_label", "dirichlet"])
def test_batches_are_pure_and_differ_between_workers_steps_and_seeds(sharding):
    kind = {"sharding": sharding, "dirichlet_alpha": 0.5 if sharding == "dirichlet" else None}
    one, again, other = (task(4, seed, **kind) for seed in (3, 3, 4))
    keys = [(step, worker) for step in (0, 1, 200) for worker in range(4)]
    first = {key: one.batch(*key)["images"].numpy().tobytes() for key in keys}
    assert first == {key: again.batch(*key)["images"].numpy().tobytes() for key in reversed(keys)}
    assert len(set(first.values())) == len(keys)
    assert not set(first.values()) & {other.batch(*key)["images"].numpy().tobytes() for key in keys}


def test_an_epoch_shows_every_image_once():
    one = task(4)
    counts = (
        torch.stack([one.batch(step, worker)["labels"] for step in range(15) for worker in range(4)])
        .flatten()
        .bincount()
    )
    assert counts.tolist() == [24] * 10


def test_sorted_shares_hold_few_classes_and_are_trained_on_completely():
    own = task(4, sharding="by_label")
    for worker in range(4):
        labels = torch.cat([own.batch(step, worker)["labels"] for step in range(15)])
        share = np.arange(60 * worker, 60 * worker + 60) // 24  # 24 images a class, sorted
        assert labels.bincount(minlength=10).tolist() == np.bincount(share, minlength=10).tolist()


@examples(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 9), st.floats(1e-4, 1e4), st.integers(0, 99)
)
def test_shares_are_equal_and_disjoint(per_class, workers, alpha, seed):
    labels = np.repeat(np.arange(len(per_class)), per_class)
    assume(len(labels) >= workers)
    for shards in (by_label(labels, workers), dirichlet(labels, workers, alpha, np.random.default_rng(seed))):
        assert {len(shard) for shard in shards} == {len(labels) // workers}
        together = np.concatenate(shards)
        assert len(np.unique(together)) == len(together) == len(labels) // workers * workers


def test_dirichlet_shares_go_from_one_class_to_iid():
    labels = np.repeat(np.arange(10), 200)

    def largest(alpha):
        """The share of the most frequent class, mean over workers and draws."""
        shards = [shard for seed in range(8) for shard in dirichlet(labels, 10, alpha, np.random.default_rng(seed))]
        return np.mean([np.bincount(labels[shard]).max() / len(shard) for shard in shards])

    assert largest(1e-3) > 0.95
    assert 0.3 < largest(0.5) < 0.5
    assert largest(1e4) < 0.16  # 20 of 200 images are expected, and some class has more


def test_loss_is_the_smoothed_cross_entropy_summed_over_images():
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).double()
    batch = task().batch(0, 0)
    pixels = batch["images"].numpy() / 255
    logits = model(torch.from_numpy((pixels - 0.286) / 0.353)).detach().numpy()
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    target = np.full((16, 10), 0.01) + 0.9 * np.eye(10)[batch["labels"]]
    loss = task().loss_sum(model, batch).detach()
    assert float(loss) == pytest.approx(-(target * log_p).sum(), rel=1e-10)
    parts = task().micro_batches(batch, 3)
    assert sum(task().loss_sum(model, part).item() for part in parts) == pytest.approx(float(loss), rel=1e-12)
    assert sum(task().weight(part) for part in parts) == task().weight(batch) == 16
    with pytest.raises(ValueError, match="micro_batches=17: a worker's batch has only 16 images"):
        task().micro_batches(batch, 17)


class Fixed(nn.Module):
    """Logits that depend on one pixel, so that the right answers can be counted by hand."""

    def __init__(self):
        super().__init__()
        self.order = nn.Parameter(torch.arange(10.0))

    def forward(self, images):
        return (
            self.order * images[:, 0, 14, 14:15].sign()
        )  # the last classes win if the pixel is brighter than the mean


def test_accuracies_count_every_validation_image_once_whatever_the_batches():
    split = load_split(settings(), "validation")
    chosen = np.arange(90) * 2000 // 90
    labels, bright = split.labels[chosen], split.images[chosen, 14, 14] / 255 > 0.286
    top1 = np.where(bright, labels == 9, labels == 0).mean()
    top5 = np.where(bright, labels >= 5, labels <= 4).mean()
    logits = np.where(bright[:, None], np.arange(10), -np.arange(10))
    loss = np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(90), labels])
    for size in (90, 20, 7):
        one = task(validation_batch=size)
        batches = one.validation_batches()
        assert [len(batch["labels"]) for batch in batches] == sorted([len(b["labels"]) for b in batches], reverse=True)
        assert len(batches) == math.ceil(90 / size)
        metrics = one.summarise([one.evaluate(Fixed(), batch) for batch in batches])
        assert metrics == pytest.approx({"val_loss": loss, "top1": 100 * top1, "top5": 100 * top5}, rel=1e-9)
    for batch in task().validation_batches():  # every batch is a fair sample
        assert batch["labels"].bincount(minlength=10).tolist() == pytest.approx([1.8] * 10, abs=1)


def network_of(model: str, norm: str) -> nn.Module:
    shape = {"blocks": None, "width": None} if model == "resnet50" else {"width": 16}
    return build_model(settings(model=model, norm=norm, **shape), 10)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("model", ["resnet50", "small_resnet"])
def test_decay_takes_all_but_norms_and_biases(model, norm):
    network = network_of(model, norm)
    norms = {type(m) for m in network.modules()} & {nn.BatchNorm2d, nn.GroupNorm}
    assert norms == {nn.BatchNorm2d if norm == "batch" else nn.GroupNorm}
    decayed = {
        id(p) for group in parameter_groups(network, 1 / 32768) if group["weight_decay"] for p in group["params"]
    }
    for module in network.modules():
        for name, p in module.named_parameters(recurse=False):
            expected = isinstance(module, nn.Conv2d | nn.Linear) and name == "weight"
            assert (id(p) in decayed) == expected
    assert {g["weight_decay"] for g in parameter_groups(network, 1 / 32768)} == {1 / 32768, 0.0}


@pytest.mark.parametrize(("norm", "same"), [("group", True), ("batch", False)])
def test_workers_of_few_classes_have_the_gradient_of_all_images_with_group_norm_alone(norm, same):
    """Why a study of label-sorted shards has group norm: with batch norm even exact averaging is another training."""
    network = network_of("small_resnet", norm).double()
    shares = task(world_size=4, sharding="by_label", global_batch=64)
    batches = [shares.batch(0, worker) for worker in range(4)]

    def gradient(batch):
        network.zero_grad()
        (shares.loss_sum(network, batch) / shares.weight(batch)).backward()
        return torch.cat([p.grad.flatten() for p in network.parameters()])

    mean = torch.stack([gradient(batch) for batch in batches]).mean(0)
    whole = gradient({name: torch.cat([batch[name] for batch in batches]) for name in batches[0]})
    assert torch.allclose(mean, whole, rtol=1e-9, atol=1e-12) == same


def test_resnet50_is_the_published_one_and_takes_the_published_crops():
    network = build_model(settings(model="resnet50", blocks=None, width=None), 1000).eval()
    assert sum(p.numel() for p in network.parameters()) == 25_557_032
    with torch.no_grad():
        assert network(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)


@pytest.mark.parametrize(("blocks", "side"), [((1,), 14), ((1, 2), 7), ((1, 1, 1), 4)])
def test_small_resnet_halves_the_image_in_each_stage(blocks, side):
    network = build_model(settings(blocks=blocks, width=4), 10)
    sides = []
    network.pool.register_forward_pre_hook(lambda _, inputs: sides.append(inputs[0].shape[1:]))
    assert network(torch.randn(2, 1, 28, 28)).shape == (2, 10)
    assert sides == [(4 * 2 ** (len(blocks) - 1), side, side)]
    assert sum(isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3) for m in network.modules()) == 1 + 2 * sum(blocks)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"global_batch": 0}, "task.global_batch=0 must be positive"),
        ({"sharding": "dirichlet"}, "task.dirichlet_alpha=None does not fit task.sharding=dirichlet"),
        ({"dirichlet_alpha": 0.1}, "task.dirichlet_alpha=0.1 does not fit task.sharding=iid"),
        ({"train_size": 32}, "must be 28"),
        ({"mean": (0.1, 0.2, 0.3), "std": (1.0, 1.0, 1.0)}, "must have one number"),
        ({"dataset": "some/folder"}, "holds colour images in files: task.padding=2 must be 0"),
        ({"std": (0.0,)}, "std > 0"),
        ({"model": "resnet50"}, "give null for both"),
        ({"width": None}, "task.model=small_resnet needs task.blocks"),
        ({"label_smoothing": 1.0}, "task.label_smoothing=1.0"),
        ({"validation_size": 29}, "must not exceed task.validation_resize=28"),
        ({"max_corrupt": -1}, "task.max_corrupt=-1"),
    ],
)
def test_settings_refuse_what_has_no_meaning(changes, message):
    with pytest.raises(ValueError, match=message):
        settings(**changes)


def test_more_images_than_there_are_and_batches_that_cannot_be_shared_are_refused():
    with pytest.raises(ValueError, match=r"task\.train_images=12001: there are only 12000 images"):
        task(train_images=12001)
    with pytest.raises(ValueError, match=r"task\.validation_images=2001"):
        task(validation_images=2001)
    with pytest.raises(ValueError, match=r"task\.global_batch=16 cannot be shared equally by world_size=3"):
        task(3)
    with pytest.raises(ValueError, match="8 images cannot be shared out to 16 workers"):
        task(16, train_images=8, sharding="by_label")
