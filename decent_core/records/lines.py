"""Runs as lines of a table: what stands in each line, what all lines share, and what is left out as said twice."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from decent_core.records.columns import Columns, flatten, nest, to_cell
from decent_core.records.record import Record, finite, from_content

LEARNING_RATE = "config.optimizer.lr"  # its column is called learning_rate
PARAMETERS = "parameters_sha256"  # a list; a digest of it stands in the column parameters_digest
FIRST = (
    "scale", "setting", "row", "learning_rate", "seed", "status", "method", "optimizer", "topology", "primary_metric",
)  # fmt: skip
FIELDS = [field.name for field in fields(Record)]
#: fields, with those below them, that are written once if all runs have the same
SHARED = (
    "config", "versions", "notes", "schema", "source", "message", "experiment", "task", "engine", "world_size",
    "local_size", "device", "git_dirty", "lower_is_better", "wait_ms_p50", "outputs",
)  # fmt: skip
#: columns that mostly say what another one says; they are left out if they do so in all runs
TWINS = {
    **{f"config.{name}": name for name in ("seed", "scale", "experiment", "world_size", "local_size")},
    **{f"config.{name}.name": name for name in ("task", "method", "optimizer", "topology", "engine")},
    "best.step": "steps",
}


@dataclass(frozen=True)
class Run:
    """A run of a table: the keys of its row and of its setting (empty: the table has none) in conf/table."""

    row: str
    setting: str
    record: Record

    @property
    def learning_rate(self) -> float | None:
        return flatten(self.record.config).get(LEARNING_RATE.removeprefix("config."))

    @property
    def identity(self) -> tuple[str, str, str, int, str]:
        """Two runs of a table that have the same one do the same."""
        return self.row, self.setting, self.record.scale, self.record.seed, self.record.config_hash

    @property
    def order(self) -> tuple[Any, ...]:
        """Where the run stands among others."""
        rate, record = self.learning_rate, self.record
        number = float(rate) if isinstance(rate, int | float) else 0.0
        return record.scale, self.setting, self.row, number, record.seed, record.config_hash


def to_lines(runs: Iterable[Run]) -> tuple[list[Columns], Columns, dict[str, str]]:
    """A line a run without its curve, what all lines share, and columns left out with the one that says the same."""
    lines = [_line(run) for run in runs]
    twins = _twins(lines)
    lines = [{name: value for name, value in line.items() if name not in twins} for line in lines]
    shared = _shared(lines)
    return [{name: value for name, value in line.items() if name not in shared} for line in lines], shared, twins


def columns(lines: Sequence[Columns]) -> list[str]:
    """The names of all columns, in order."""
    names = {name for line in lines for name in line}
    return [*FIRST, *sorted(names - set(FIRST), key=_rank)]


def to_run(
    line: Columns, twins: Mapping[str, str], curves: Mapping[str, list[dict[str, Any]]],
    digests: Mapping[str, list[str]], where: str,
) -> Run:  # fmt: skip
    """The run of a line that has all columns but the twins; ValueError, beginning with `where`, names what is wrong.

    `curves` and `digests` (of parameters) are those of all runs, by run_id.
    """
    content = line | {name: line[other] for name, other in twins.items() if other in line}
    content = {(LEARNING_RATE if name == "learning_rate" else name): value for name, value in content.items()}
    row, setting = content.pop("row", None), content.pop("setting", "")
    if not isinstance(row, str) or not isinstance(setting, str):
        raise ValueError(f"{where}: row is {row!r} and setting {setting!r}, expected keys of conf/table")
    try:
        nested = nest(content)
    except ValueError as error:
        raise ValueError(f"{where}: column {error}") from None
    run_id = str(nested.get("run_id"))
    if (digest := nested.pop("parameters_digest", None)) is None:
        nested[PARAMETERS] = None
    elif digest == parameters_digest(workers := digests.get(run_id, [])):
        nested[PARAMETERS] = workers
    else:
        raise ValueError(f"{where}: parameters_digest is {digest!r}, parameters.csv.gz has others for run_id={run_id}")
    return Run(row, setting, from_content(nested | {"curve": curves.get(run_id, [])}, where))


def parameters_digest(workers: Sequence[str]) -> str:
    """One short digest of the digests of every worker's parameters: runs with the same one ended alike, bit by bit."""
    return hashlib.sha256("\n".join(workers).encode()).hexdigest()[:12]


def _line(run: Run) -> Columns:
    """All columns of a run, in an order of their own: that of a record's fields, and of the alphabet below them."""
    apart = ("curve", "notes", PARAMETERS)
    content = finite({name: value for name, value in asdict(run.record).items() if name not in apart})
    workers = run.record.parameters_sha256
    content["parameters_digest"] = None if workers is None else parameters_digest(workers)
    line = {"row": run.row, "notes": run.record.notes} | ({"setting": run.setting} if run.setting else {})
    line |= {("learning_rate" if name == LEARNING_RATE else name): value for name, value in flatten(content).items()}
    return {name: line[name] for name in sorted(line, key=_rank)}


def _rank(name: str) -> tuple[int, str]:
    field = PARAMETERS if name == "parameters_digest" else name.partition(".")[0]
    return FIELDS.index(field) if field in FIELDS else -1, name


def _twins(lines: Sequence[Columns]) -> dict[str, str]:
    names = dict.fromkeys(name for line in lines for name in line)
    best = {name: name.removeprefix("best.") for name in names if name.startswith("best.metrics.")}
    return {
        name: other
        for name, other in (TWINS | best).items()
        if name in names and all(_cell(line, name) == _cell(line, other) for line in lines)
    }


def _shared(lines: Sequence[Columns]) -> Columns:
    first: Columns = lines[0] if lines else {}
    return {
        name: value
        for name, value in first.items()
        if name.partition(".")[0] in SHARED and all(_cell(line, name) == _cell(first, name) for line in lines)
    }


def _cell(line: Columns, name: str) -> str:
    return to_cell(line[name]) if name in line else ""
