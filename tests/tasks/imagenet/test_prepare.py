"""scripts.prepare for images: ILSVRC's tar files and Fashion-MNIST's own files, checked, and continued after a kill."""

import dataclasses
import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from tasks.imagenet import fashion_files, ilsvrc, prepare
from tasks.imagenet.fashion import load_split
from tasks.imagenet.task import ImageTask
from tests.support.images import encoded, file_settings, picture, settings

#: class numbers of the devkit are in no order of the WordNet ids, and it has a group of classes besides
WNIDS = {1: "n03", 2: "n01", 3: "n02"}
TRUTH = [3, 1, 1, 2, 3, 2]


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            add(archive, name, content)
    return buffer.getvalue()


def devkit() -> dict[str, bytes]:
    kinds = [("ILSVRC2012_ID", "f8"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "f8")]
    rows = [(number, wnid, f"word {wnid}", "gloss", 0) for number, wnid in WNIDS.items()] + [
        (4, "n00", "all", "gloss", 3)
    ]
    meta = io.BytesIO()
    savemat(meta, {"synsets": np.array(rows, dtype=kinds)[:, None]})
    folder = "ILSVRC2012_devkit_t12/data"
    truth = "".join(f"{number}\n" for number in TRUTH).encode()
    return {f"{folder}/meta.mat": meta.getvalue(), f"{folder}/ILSVRC2012_validation_ground_truth.txt": truth}


@pytest.fixture
def archives(tmp_path):
    """The three files in their layout: a tar file of tar files, a flat one, the devkit. Class n holds pictures of n."""
    classes = {
        wnid: {f"{wnid}_{i}.JPEG": encoded(picture(number, i), "PNG" if i == 2 else "JPEG") for i in range(4)}
        for number, wnid in WNIDS.items()
    }
    (tmp_path / "source").mkdir()
    contents = {
        ilsvrc.TRAIN: tar({f"{wnid}.tar": tar(files) for wnid, files in classes.items()}),
        ilsvrc.VALIDATION: tar(
            {
                f"ILSVRC2012_val_{i:08}.JPEG": encoded(picture(number, 10 + i))
                for i, number in reversed([*enumerate(TRUTH)])
            }
        ),
        ilsvrc.DEVKIT: gzip.compress(tar(devkit())),
    }
    for name, content in contents.items():
        (tmp_path / "source" / name).write_bytes(content)
    return file_settings("ilsvrc", source_dir=str(tmp_path / "source"), data_dir=str(tmp_path / "data"), global_batch=4)


def test_archives_become_a_tree_with_the_devkits_classes(archives):
    calls = []
    summary = prepare(archives, lambda *progress: calls.append(progress))
    root = Path(archives.data_dir) / "ilsvrc"
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert "12 training images, 6 validation images, 3 classes" in summary
    assert sorted(p.name for p in (root / "train").iterdir()) == ["n01", "n02", "n03"]
    for index, number in enumerate(TRUTH):
        file = root / "val" / WNIDS[number] / f"ILSVRC2012_val_{index:08}.JPEG"
        assert file.read_bytes() == encoded(picture(number, 10 + index))
    again = dataclasses.replace(archives, source_dir=None)  # the archives are needed once
    assert prepare(again, lambda *_: None) == summary
    task = ImageTask(archives, 3, 1)
    assert (task._images.classes, task._images.labels.tolist()) == (3, [0] * 4 + [1] * 4 + [2] * 4)
    assert len(task.batch(0, 0)["labels"]) == 4
    task._images.decoder.backend.close()


def test_killed_unpacking_continues_and_ends_the_same(archives, monkeypatch):
    """Killed at every file in turn: what is written stays, and nothing half-written is taken for whole."""
    root = Path(archives.data_dir) / "ilsvrc"
    write, written = ilsvrc._write, []

    def killed(path, content):
        written.append(path)
        if len(written) % 3 == 0:
            path.with_name(f"{path.name}.partial").write_bytes(content[:10])
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(ilsvrc, "_write", killed)
    kills = 0
    while not (root / "manifest.json").exists():
        try:
            prepare(archives, lambda *_: None)
        except KeyboardInterrupt:
            kills += 1
            with pytest.raises(ValueError, match="only in part"):
                ilsvrc.prepared_tree(archives)
    assert kills == 9
    assert len(written) == 19 + kills, "18 images and the manifest, and one more for each kill: nothing is done twice"
    files = sorted(path.relative_to(root) for path in root.rglob("*.*") if path.is_file())
    assert len([f for f in files if f.suffix == ".JPEG"]) == 18
    assert not [f for f in files if f.suffix == ".partial"]
    assert ImageTask(archives, 3, 1)._images.validation_count == 6


def replace(archives, name: str, content: bytes) -> None:
    (Path(archives.source_dir) / name).write_bytes(content)


def test_damaged_or_incomplete_archives_are_refused(archives):
    source = Path(archives.source_dir)
    whole = {name: (source / name).read_bytes() for name in (ilsvrc.TRAIN, ilsvrc.VALIDATION, ilsvrc.DEVKIT)}
    image = encoded(picture(1, 0))
    two = {f"{wnid}.tar": tar({"a.JPEG": image}) for wnid in ("n01", "n02")}
    cases = [
        (ilsvrc.TRAIN, tar(two), "lacks 1 of 3 classes, such as n03"),
        (ilsvrc.TRAIN, tar({**two, "n03.tar": tar({})}), "class n03 has no images"),
        (ilsvrc.TRAIN, tar({**two, "n03.tar": tar({"b.JPEG": b"text"})}), "b.JPEG of .* is damaged"),
        (ilsvrc.TRAIN, whole[ilsvrc.TRAIN][:3000], "ILSVRC2012_img_train.tar"),
        (ilsvrc.VALIDATION, tar({"a.JPEG": image}), "holds 1 images, and the devkit's ground truth is of 6"),
        (ilsvrc.DEVKIT, b"no archive", "is not the development kit"),
        (ilsvrc.DEVKIT, gzip.compress(tar({"x": b""})), "is not the development kit"),
    ]
    for name, content, message in cases:
        replace(archives, name, content)
        with pytest.raises(ValueError, match=message):
            prepare(archives, lambda *_: None)
        replace(archives, name, whole[name])
    (source / ilsvrc.DEVKIT).unlink()
    with pytest.raises(ValueError, match=r"lacks ILSVRC2012_devkit_t12.tar.gz"):
        prepare(archives, lambda *_: None)
    with pytest.raises(ValueError, match=r"give task.source_dir=FOLDER"):
        prepare(file_settings("ilsvrc", data_dir=archives.data_dir), lambda *_: None)


def test_tree_that_has_lost_a_file_is_refused(archives):
    prepare(archives, lambda *_: None)
    next((Path(archives.data_dir) / "ilsvrc/train/n02").iterdir()).unlink()
    with pytest.raises(ValueError, match="is not as it was unpacked"):
        prepare(archives, lambda *_: None)


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4) for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture
def fashion(tmp_path, monkeypatch):
    """Fashion-MNIST's four files with a few of its images, whose hashes stand in for the published ones."""
    source = tmp_path / "source"
    source.mkdir()
    draw, hashes = np.random.default_rng(1), {}
    for prefix, name, count in (("train", "train", 50), ("t10k", "validation", 20)):
        split = load_split(settings(), name)
        order = draw.permutation(len(split.labels))[:count]
        for kind, content in (("images-idx3", split.images), ("labels-idx1", split.labels.astype(np.uint8))):
            raw = idx(content[order])
            (source / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(raw))
            hashes[f"{prefix}-{kind}-ubyte"] = fashion_files.hashlib.sha256(raw).hexdigest()
    monkeypatch.setattr(fashion_files, "SHA256", hashes)
    changes = {"train_images": None, "validation_images": None, "global_batch": 10}
    return settings(dataset="fashion_mnist", source_dir=str(source), data_dir=str(tmp_path / "data"), **changes)


def test_fashion_files_are_checked_sorted_and_trained_on(fashion):
    with pytest.raises(ValueError, match=r"not prepared.*scripts.prepare"):
        ImageTask(fashion, 3, 1)
    assert prepare(fashion, lambda *_: None).endswith("10 classes")
    task = ImageTask(fashion, 3, 1)
    assert np.array_equal(task._images.labels, np.sort(task._images.labels))
    embedded = load_split(settings(), "train")
    known = {image.tobytes(): label for image, label in zip(embedded.images, embedded.labels, strict=True)}
    for image, label in zip(*vars(load_split(fashion, "train")).values(), strict=True):
        assert known[image.tobytes()] == label
    assert sum(len(batch["labels"]) for batch in task.validation_batches()) == 20


def test_other_files_under_fashion_mnists_names_are_refused(fashion):
    path = Path(fashion.source_dir) / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1] + b"\x00\x01"))
    with pytest.raises(ValueError, match="t10k-labels-idx1-ubyte: its content has another sha256"):
        prepare(fashion, lambda *_: None)
    path.write_bytes(b"\x1f\x8b123")
    with pytest.raises(ValueError, match="is damaged"):
        prepare(fashion, lambda *_: None)
    path.unlink()
    with pytest.raises(ValueError, match="is missing"):
        prepare(fashion, lambda *_: None)


def test_embedded_data_need_no_preparation():
    assert "nothing to prepare" in prepare(settings(), lambda *_: None)
