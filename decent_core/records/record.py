"""Records: one JSON file a run, from which every table and figure is made. No torch."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from inspect import formatannotation
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter, ValidationError

from decent_core.system.files import write_atomically

SCHEMA = 1


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

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to run; a run that diverged would diverge again."""
        return self.status in ("ok", "diverged")


def write(record: Record, path: Path) -> Path:
    """Write the record atomically and return its path."""
    write_atomically(path, json.dumps(finite(asdict(record)), indent=1, allow_nan=False) + "\n")
    return path


def read(path: Path) -> Record:
    """Read and check a record; raises ValueError that names the file and the field."""
    try:
        content = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a readable record: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: a record is a JSON object, this is a {type(content).__name__}")
    return from_content(content, str(path))


def from_content(content: Mapping[str, Any], where: str) -> Record:
    """The record with these fields, checked; raises ValueError that begins with `where` and names the field."""
    if content.get("schema") != SCHEMA:
        raise ValueError(f"{where}: schema is {content.get('schema')!r}, this version reads schema {SCHEMA}")
    checks = _checks()
    if strange := sorted(content.keys() - checks.keys()):
        raise ValueError(f"{where}: unknown field {strange[0]!r}")
    for field in fields(Record):
        if field.name not in content:
            if field.default is None:  # it came after records had been kept
                continue
            raise ValueError(f"{where}: field {field.name!r} is missing")
        try:
            checks[field.name].validate_python(content[field.name], strict=True)
        except ValidationError:
            given, expected = content[field.name], formatannotation(field.type)
            raise ValueError(f"{where}: field {field.name!r} is {given!r}, expected {expected}") from None
    return Record(**content)


@cache
def _checks() -> dict[str, TypeAdapter[Any]]:
    """What checks the type of each field; an int passes for a float, a bool never for a number."""
    return {name: TypeAdapter(hint) for name, hint in get_type_hints(Record).items()}


def finite(value: Any) -> Any:
    """Nested values as JSON has them: what is a float but not finite is None."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
