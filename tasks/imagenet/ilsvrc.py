"""ImageNet-1K from the tar files of ILSVRC 2012, unpacked into an ImageFolder tree; a killed run is continued."""

import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tasks.common.preparing import Progress
from tasks.imagenet.settings import Settings

TRAIN, VALIDATION = "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"
DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"
JPEG, PNG = b"\xff\xd8", b"\x89P"  # how image files begin; one of the training images is a PNG under the name of a JPEG


def prepared_tree(settings: Settings) -> Path:
    """The root of the unpacked tree; ValueError if it isn't complete."""
    root = _root(settings)
    if not (root / "manifest.json").exists():
        raise ValueError(
            f"task.dataset=ilsvrc is not prepared, or only in part (looked for {root}/manifest.json). Prepare it with: "
            "python -m scripts.prepare task=imagenet scale=paper task.source_dir=FOLDER, which holds "
            f"{TRAIN}, {VALIDATION} and {DEVKIT}."
        )
    return root


def unpack(settings: Settings, progress: Progress) -> str:
    """Unpacks the tar files of `task.source_dir` and returns a summary; `progress` counts classes, validation last.

    The tree is complete once it has its manifest, and everything in it was checked: each image is whole and begins
    as an image does, each class of the devkit has training images, each line of its ground truth has one validation
    image. ValueError for what is missing or damaged; what was unpacked stays, and the next run goes on from there.
    """
    root = _root(settings)
    if not (root / "manifest.json").exists():
        _unpack(_source(settings), root, progress)
    counts = json.loads((root / "manifest.json").read_text())
    if any(_counts(root / split) != expected for split, expected in counts.items()):
        raise ValueError(f"{root} is not as it was unpacked: delete it and prepare again.")
    train, validation = (sum(counts[split].values()) for split in ("train", "val"))
    return f"{root}: {train:,} training images, {validation:,} validation images, {len(counts['train']):,} classes"


def _unpack(source: Path, root: Path, progress: Progress) -> None:
    wnids, truth = read_devkit(source / DEVKIT)
    (root / "train").mkdir(parents=True, exist_ok=True)
    total = len(wnids) + 1
    for done, _ in enumerate(_unpack_train(source / TRAIN, root / "train", sorted(wnids.values())), 1):
        progress(done, total)
    _unpack_validation(source / VALIDATION, root, [wnids[number] for number in truth])
    progress(total, total)
    counts = {split: _counts(root / split) for split in ("train", "val")}
    if counts["val"] != Counter(wnids[number] for number in truth):
        raise ValueError(f"{root / 'val'} is not what {VALIDATION} holds: delete that folder and prepare again.")
    _write(root / "manifest.json", json.dumps(counts, indent=1).encode())


def read_devkit(path: Path) -> tuple[dict[int, str], list[int]]:
    """(class number -> WordNet id, class number of each validation image in order of name), from the devkit."""
    from scipy.io import loadmat  # only the devkit needs it

    try:
        with tarfile.open(path) as archive:
            files = {Path(member.name).name: member for member in archive if member.isfile()}
            meta = loadmat(_content(archive, files["meta.mat"]), squeeze_me=True, struct_as_record=True)["synsets"]
            lines = _content(archive, files["ILSVRC2012_validation_ground_truth.txt"]).read().split()
    except (OSError, KeyError, tarfile.TarError, EOFError) as error:
        raise ValueError(f"{path} is not the development kit of ILSVRC 2012 ({error!r}).") from error
    leaves = meta[meta["num_children"] == 0]  # the others are groups of classes
    wnids = dict(zip(map(int, leaves["ILSVRC2012_ID"]), map(str, leaves["WNID"]), strict=True))
    return wnids, [int(line) for line in lines]


def _unpack_train(path: Path, folder: Path, wnids: list[str]) -> Iterator[str]:
    """One class after another: a tar file of its own in the big one."""
    with _open(path) as archive:
        members = {Path(member.name).stem: member for member in archive if member.isfile()}
        if missing := sorted(set(wnids) - set(members)):
            raise ValueError(f"{path} lacks {len(missing)} of {len(wnids)} classes, such as {missing[0]}.")
        for wnid in wnids:
            final, partial = folder / wnid, folder.parent / "partial" / wnid
            if not final.exists():
                partial.mkdir(parents=True, exist_ok=True)
                with _open(path, _content(archive, members[wnid])) as images:
                    names = [_unpack_image(images, member, partial) for member in images if member.isfile()]
                if not names:
                    raise ValueError(f"{path}: class {wnid} has no images.")
                partial.rename(final)
            yield wnid


def _unpack_validation(path: Path, root: Path, wnids: list[str]) -> None:
    """The i-th image in order of name goes to the class of line i of the ground truth."""
    final, partial = root / "val", root / "partial" / "val"
    if final.exists():
        return
    with _open(path) as archive:
        members = sorted((member for member in archive if member.isfile()), key=lambda member: Path(member.name).name)
        if len(members) != len(wnids):
            raise ValueError(f"{path} holds {len(members)} images, and the devkit's ground truth is of {len(wnids)}.")
        for member, wnid in zip(members, wnids, strict=True):
            (partial / wnid).mkdir(parents=True, exist_ok=True)
            _unpack_image(archive, member, partial / wnid)
    partial.rename(final)


def _unpack_image(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> str:
    """Writes the image unless it is there with its size; its path in the archive does not count, only its name."""
    name = Path(member.name).name
    path = folder / name
    if not path.exists() or path.stat().st_size != member.size:
        content = _content(archive, member).read()
        if len(content) != member.size or not content.startswith((JPEG, PNG)):
            raise ValueError(f"{member.name} of {archive.name!s} is damaged: get the archive again.")
        _write(path, content)
    return name


@contextmanager
def _open(path: Path, file: IO[bytes] | None = None) -> Iterator[tarfile.TarFile]:
    """The archive at `path`, or in `file`; ValueError also for damage that shows later, while it is read."""
    try:
        with tarfile.open(path, "r:", fileobj=file) as archive:
            yield archive
    except tarfile.TarError as error:
        raise ValueError(f"{path} can't be read as a tar file ({error}).") from error


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(member)
    assert file is not None
    return file


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, path)


def _counts(folder: Path) -> dict[str, int]:
    """Images in each class."""
    return {entry.name: len(os.listdir(entry)) for entry in sorted(folder.iterdir())}


def _root(settings: Settings) -> Path:
    return Path(settings.data_dir) / "ilsvrc"


def _source(settings: Settings) -> Path:
    if settings.source_dir is None:
        raise ValueError(
            f"task.dataset=ilsvrc: give task.source_dir=FOLDER, which holds {TRAIN}, {VALIDATION} and {DEVKIT}."
        )
    source = Path(settings.source_dir)
    if missing := [name for name in (TRAIN, VALIDATION, DEVKIT) if not (source / name).is_file()]:
        raise ValueError(f"task.source_dir={source} lacks {', '.join(missing)}.")
    return source
