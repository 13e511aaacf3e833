"""Fashion-MNIST's own files: four gzipped IDX files, from a local folder or from Debian's package."""

import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tasks.imagenet.fashion import FILES, SIDE, Split, prepared_folder
from tasks.imagenet.settings import Settings

PACKAGE = "dataset-fashion-mnist"
IN_PACKAGE = "usr/share/datasets/fashion-mnist"
PREFIXES = {"train": "train", "validation": "t10k"}
#: sha256 of the uncompressed files, which are the same wherever they come from
SHA256 = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def prepare_fashion(settings: Settings, progress: Callable[[int, int], None]) -> str:
    """Checks the files and stores the images sorted by label; returns a summary. ValueError if a file is wrong."""
    folder = prepared_folder(settings)
    if not all((folder / name).exists() for name in FILES.values()):
        folder.mkdir(parents=True, exist_ok=True)
        with fashion_files(settings.source_dir) as source:
            for done, (split, name) in enumerate(FILES.items(), 1):
                data = read_split(source, split)
                _save(folder / name, data)
                progress(done, len(FILES))
    return f"{folder}: 60,000 training images, 10,000 validation images, 10 classes"


@contextmanager
def fashion_files(source_dir: str | None) -> Iterator[Path]:
    """A folder with the four files: `source_dir`, or Debian's package, fetched by apt-get; ValueError if that fails."""
    if source_dir is not None:
        yield Path(source_dir)
        return
    advice = (
        "Fetch the four files of Fashion-MNIST (train-images-idx3-ubyte.gz and so on) by other means and give "
        "their folder as task.source_dir."
    )
    if missing := [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]:
        raise ValueError(f"Debian's package {PACKAGE} can't be fetched without {missing[0]}. {advice}")
    with tempfile.TemporaryDirectory() as folder:
        commands = [["apt-get", "download", "-q", PACKAGE], ["sh", "-c", f"dpkg-deb -x {PACKAGE}_*.deb ."]]
        for command in commands:
            result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if result.returncode:
                reason = (result.stderr or result.stdout).strip().splitlines()[-1:]
                raise ValueError(f"{' '.join(command)} failed: {' '.join(reason)}. {advice}")
        yield Path(folder) / IN_PACKAGE


def read_split(source: Path, split: str) -> Split:
    """The images of a split, sorted by label, otherwise in their order; ValueError if a file is missing or another."""
    pixels = _read(source, f"{PREFIXES[split]}-images-idx3-ubyte").reshape(-1, SIDE, SIDE)
    labels = _read(source, f"{PREFIXES[split]}-labels-idx1-ubyte")
    order = np.argsort(labels, kind="stable")
    return Split(pixels[order], labels[order].astype(np.int64))


def _read(source: Path, name: str) -> np.ndarray:
    """What stands behind the header of an IDX file, uint8."""
    path = source / f"{name}.gz"
    try:
        content = gzip.decompress(path.read_bytes())
    except FileNotFoundError as error:
        raise ValueError(f"{path} is missing.") from error
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}).") from error
    if hashlib.sha256(content).hexdigest() != SHA256[name]:
        raise ValueError(f"{path} is not Fashion-MNIST's {name}: its content has another sha256.")
    dimensions = content[
        3
    ]  # an IDX file begins with 0, 0, the type (8: uint8) and this; then their sizes, 4 bytes each
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions)


def _save(path: Path, data: Split) -> None:
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        np.savez(file, images=data.images, labels=data.labels.astype(np.uint8))
    os.replace(partial, path)
