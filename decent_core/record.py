"""Records: one JSON file a run, from which every table and figure is made; and the step log beside it. No torch."""

import errno
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

SCHEMA = 1
ROOT = Path(__file__).resolve().parent.parent
#: what a run's result depends on; tables, figures and texts may change without making a run irreproducible
SOURCES = ("conf", "decent_core", "tasks", "scripts", "requirements.lock")
PACKAGES = ("torch", "torchvision", "numpy", "transformers", "tokenizers", "datasets", "hydra-core", "pydantic")

#: keys of a configuration that say where, how long at a time or how chattily a run goes, but not what comes out of it
WITHOUT_EFFECT = frozenset(
    {
        "out", "resume", "target", "scale", "experiment", "logger", "task.data_dir", "engine.timeout_seconds",
        "trainer.checkpoint_every", "trainer.keep_checkpoints", "trainer.log_every", "trainer.threads",
    }
)  # fmt: skip
#: errors of the system that say that a path is wrong, and nothing about the disk
WRONG_PATH = frozenset(
    {
        errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR,
        errno.EPERM, errno.EROFS,
    }
)  # fmt: skip
#: keys that came after records had been kept, with the value by which a run does what it did before: it keeps its hash
LATER = {"task.decoder": "torchvision", "task.norm": "batch"}


@dataclass(frozen=True)
class Record:
    """One run. Times are those of training steps alone, the slowest rank's; a value that is not finite is `null`."""

    run_id: str  # the same after a resume
    source: Literal["measured", "published", "simulated"]
    status: Literal["ok", "diverged", "failed", "preempted"]
    message: str | None  # why it is not `ok`
    experiment: str | None  # the row of a published table, if the run is one
    config_hash: str
    task: str
    optimizer: str
    method: str
    topology: str
    engine: str
    scale: str
    world_size: int
    local_size: int | list[int] | None
    seed: int
    overrides: list[str]  # as given by the user
    config: dict[str, Any]
    git_commit: str | None
    git_dirty: bool | None
    versions: dict[str, str]
    device: str
    started_at: str  # ISO 8601, UTC
    steps: int  # completed
    samples: int  # seen in training by all workers together
    train_seconds: float
    eval_seconds: float
    step_ms_p50: float | None
    step_ms_p95: float | None
    wait_ms_p50: float | None  # of a step, in which computation stood still for an exchange
    bytes_sent_per_step: float | None  # mean over workers and steps
    peak_gib: float | None  # memory of the largest process or device
    metrics: dict[str, float | None]  # final: the averaged model's; under `local_`: mean over the workers' own models
    primary_metric: str  # the one of `metrics` by which the task is judged
    best: dict[str, Any]  # {"step": ..., "metrics": {...}} of the best evaluation in the primary metric
    consensus_distance: float | None  # final
    curve: list[dict[str, Any]]  # [{"step": steps done, "seconds": training seconds, "values": {name: value}}]
    parameters_sha256: list[str] | None  # of every worker's final parameters
    notes: dict[str, str]  # what the task says beside numbers: signatures of scores, what was left out of the data
    outputs: list[dict[str, str]]  # some to look at, such as translations beside their references
    schema: int = SCHEMA
    lower_is_better: bool | None = None  # of the primary metric; null in records that were made before it was noted


def without(config: Mapping[str, Any], ignore: frozenset[str], prefix: str = "") -> dict[str, Any]:
    """A nested configuration without the dotted keys in `ignore`, and without those of `LATER` that change nothing."""
    paths = {key: f"{prefix}{key}" for key in config}
    kept = {k: v for k, v in config.items() if paths[k] not in ignore and (paths[k], v) not in LATER.items()}
    return {k: without(v, ignore, f"{prefix}{k}.") if isinstance(v, Mapping) else v for k, v in kept.items()}


def config_hash(config: Mapping[str, Any], ignore: frozenset[str] = WITHOUT_EFFECT) -> str:
    """sha256 of the canonical JSON of a nested configuration without the dotted keys in `ignore`.

    Two runs with equal hashes give the same numbers on one machine. Pass `WITHOUT_EFFECT | {"seed"}` for what the seeds
    of one row have in common.
    """
    return hashlib.sha256(json.dumps(without(config, ignore), sort_keys=True).encode()).hexdigest()


class WrongPath(ValueError, OSError):
    """No file can be written there: a mistake in a command, and a failed write for whoever can go on without it."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a whole file, or leave the old one as it was; the folder is made.

    Raises WrongPath, which names the path, where no file can be; an OSError of the disk, if it is full, stays as it is.
    """
    partial = path.parent / f".{path.name}.{os.getpid()}.partial"
    with naming(path), _removing(partial):
        if path.exists() and not path.is_file():
            raise IsADirectoryError(errno.EISDIR, "a folder or a device is there")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)


def make_folder(path: Path) -> None:
    """Make a folder with those above it, unless it is there; raises as `write_atomically`."""
    with naming(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Inside, an error of the system that says that a path is wrong becomes a WrongPath that names this one."""
    try:
        yield
    except OSError as error:
        if error.errno not in WRONG_PATH:
            raise
        # of a folder that is to be made where a file lies, mkdir says "File exists"
        problem = os.strerror(errno.ENOTDIR) if error.errno == errno.EEXIST else error.strerror
        raise WrongPath(f"{path}: cannot be written ({problem})") from None


@contextmanager
def _removing(partial: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(OSError):
            partial.unlink()


def write(record: Record, path: Path) -> Path:
    """Write the record atomically and return its path."""
    write_atomically(path, json.dumps(_finite(asdict(record)), indent=1, allow_nan=False) + "\n")
    return path


def read(path: Path) -> Record:
    """Read and check a record; raises ValueError that names the file and the field."""
    try:
        content = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a readable record: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: a record is a JSON object, this is a {type(content).__name__}")
    if content.get("schema") != SCHEMA:
        raise ValueError(f"{path}: schema is {content.get('schema')!r}, this version reads schema {SCHEMA}")
    hints = get_type_hints(Record)
    if strange := sorted(content.keys() - hints.keys()):
        raise ValueError(f"{path}: unknown field {strange[0]!r}")
    for field in fields(Record):
        if field.name not in content:
            if field.default is None:  # it came after records had been kept
                continue
            raise ValueError(f"{path}: field {field.name!r} is missing")
        if not _fits(content[field.name], hints[field.name]):
            given, expected = content[field.name], str(field.type).removeprefix("typing.")
            raise ValueError(f"{path}: field {field.name!r} is {given!r}, expected {expected}")
    return Record(**content)


def read_all(path: Path) -> list[Record]:
    """The record in a file, or all `record.json` under a folder in the order of their paths."""
    paths = [path] if path.is_file() else sorted(path.rglob("record.json"))
    return [read(path) for path in paths]


class MetricsLog:
    """`metrics.jsonl`: one JSON object a line, each with its `step`, appended as the run goes."""

    def __init__(self, path: Path):
        self.path = path

    def append(self, values: Mapping[str, Any]) -> None:
        """Append one line; `values` holds `step`."""
        assert "step" in values, f"a line of {self.path.name} needs its step, got {sorted(values)}"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a") as stream:
            stream.write(json.dumps(_finite(dict(values)), allow_nan=False) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """All whole lines; one that a killed process left half written is left out."""
        if not self.path.exists():
            return []
        *whole, _half = self.path.read_text().split("\n")
        return [json.loads(line) for line in whole]

    def truncate_after(self, step: int, finished: bool = False) -> None:
        """Drop the lines of later steps: a resumed run writes them again, and steps never go backwards.

        With `finished` all training is done by then, and only the final evaluation is made again: its lines go too.
        """
        if self.path.exists():
            again = {"eval"} if finished else set()
            kept = [
                line for line in self.lines()
                if line["step"] < step or (line["step"] == step and line.get("kind") not in again)
            ]  # fmt: skip
            write_atomically(self.path, "".join(json.dumps(line) + "\n" for line in kept))


def git_state() -> tuple[str | None, bool | None]:
    """Commit of this checkout, and whether the sources differ from it; (None, None) outside git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", *SOURCES))
    except (OSError, subprocess.SubprocessError):
        return None, None


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on, without importing them."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _fits(value: Any, hint: Any) -> bool:
    """Whether a JSON value has the annotated type; an int passes for a float, a bool never for a number."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return value in arguments
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in arguments)
    if origin is list:
        return isinstance(value, list) and all(_fits(entry, arguments[0]) for entry in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(entry, arguments[1]) for entry in value.values())
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float) if hint is float else isinstance(value, hint)
