"""WordNet 3.0 for METEOR: set-up brings it from whichever source is reachable; everything after that works offline."""

import hashlib
import shutil
import subprocess
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "data" / "wordnet-3.0"
COMMAND = "python -m scripts.prepare wordnet"
PACKAGE = "wordnet-base=1:3.0-37"  # Debian
PACKAGE_SHA256 = "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752"
PARTS = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}
FILES = [
    *(f"{kind}.{part}" for kind in ("data", "index") for part in PARTS),
    *(f"{part}.exc" for part in PARTS),
    "lexnames",
]
#: lexnames(5WN), which Debian does not pack
LEXNAMES = [
    "adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact", "noun.attribute",
    "noun.body", "noun.cognition", "noun.communication", "noun.event", "noun.feeling", "noun.food", "noun.group",
    "noun.location", "noun.motive", "noun.object", "noun.person", "noun.phenomenon", "noun.plant",
    "noun.possession", "noun.process", "noun.quantity", "noun.relation", "noun.shape", "noun.state",
    "noun.substance", "noun.time", "verb.body", "verb.change", "verb.cognition", "verb.communication",
    "verb.competition", "verb.consumption", "verb.contact", "verb.creation", "verb.emotion", "verb.motion",
    "verb.perception", "verb.possession", "verb.social", "verb.stative", "verb.weather", "adj.ppl",
]  # fmt: skip


@lru_cache
def open_wordnet() -> Any:
    """nltk's reader of WordNet's English; ValueError says what to do if it is missing or damaged."""
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class English(WordNetCorpusReader):
        def map_wn(self, version: str = "wordnet") -> None:
            """Other languages' synsets are not read, so they need not be mapped: that takes seconds and more files."""

    if (state := _state(FOLDER)) != "complete":
        raise ValueError(f"METEOR needs WordNet 3.0, which is {state} (looked in {FOLDER}). Bring it with: {COMMAND}")
    if str(FOLDER) not in nltk.data.path:
        nltk.data.path.append(str(FOLDER))  # nltk reads from its data path only
    with warnings.catch_warnings(action="ignore"):  # about those languages
        return English(str(FOLDER), None)


def bring_wordnet() -> Path:
    """Puts WordNet 3.0 into its folder unless it is there; ValueError tells what went wrong with each source."""
    if _state(FOLDER) == "complete":
        return FOLDER
    problems = []
    for name, source in (("Debian's packages (apt-get)", _from_debian), ("nltk's data", _from_nltk)):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                _put(source(Path(scratch)), FOLDER)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                problems.append(f"{name}: {error}")
            else:
                return FOLDER
    raise ValueError(
        f"WordNet 3.0 can't be had from any source. {'; '.join(problems)}. Connect to one of them and repeat the "
        f"command, copy {FOLDER} from a machine that has it, or do without METEOR (task.meteor=false)."
    )


def _from_debian(scratch: Path) -> Path:
    _run(["apt-get", "download", PACKAGE], scratch)
    (archive,) = scratch.glob("*.deb")
    if hashlib.sha256(archive.read_bytes()).hexdigest() != PACKAGE_SHA256:
        raise ValueError(f"{archive.name} is not the expected package: its sha256 differs")
    _run(["dpkg-deb", "-x", str(archive), "."], scratch)
    files = scratch / "usr/share/wordnet"
    lines = (f"{i:02}\t{name}\t{PARTS[name.partition('.')[0]]}\n" for i, name in enumerate(LEXNAMES))
    (files / "lexnames").write_text("".join(lines))
    return files


def _from_nltk(scratch: Path) -> Path:
    import nltk

    if not nltk.download("wordnet", download_dir=str(scratch), quiet=True):  # compares checksums itself
        raise ValueError("nltk's downloader did not reach it")
    files = scratch / "corpora/wordnet"
    if not files.exists():
        shutil.unpack_archive(scratch / "corpora/wordnet.zip", files.parent)
    return files


def _run(command: list[str], folder: Path) -> None:
    """As `subprocess.run`, silent; what the command complained about is in the error."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")


def _put(files: Path, folder: Path) -> None:
    """Copies the files, and their checksum last, so that half a folder does not pass for a whole one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sha256").unlink(missing_ok=True)
    for name in FILES:
        shutil.copyfile(files / name, folder / name)
        (folder / name).chmod(0o644)  # nltk refuses data that others may write
    folder.chmod(0o755)
    (folder / "sha256").write_text(_digest(folder))


def _state(folder: Path) -> str:
    """`complete`, `missing` or `damaged`"""
    if not (folder / "sha256").exists():
        return "missing"
    try:
        return "complete" if (folder / "sha256").read_text() == _digest(folder) else "damaged"
    except OSError:
        return "damaged"


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in FILES:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
