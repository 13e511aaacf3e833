"""All runs of a table in four files: `runs.csv`, `common.yaml`, `curves.csv.gz` and `parameters.csv.gz`. No torch.

`runs.csv` has a line a run: its row and setting in conf/table, its learning rate, what it gave and where it comes from.
`common.yaml` has once what all runs share; `curves.csv.gz` has the evaluations during training, `parameters.csv.gz` the
sha256 of every worker's final parameters. Together they hold the runs' records without loss.
"""

import fcntl
import gzip
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from decent_core.records.columns import flatten, from_cell, nest, read_csv, write_csv
from decent_core.records.lines import FIRST, Run, columns, to_lines, to_run
from decent_core.records.record import Record, finite, read
from decent_core.system.files import make_folder, write_atomically

RUNS, COMMON, CURVES, PARAMETERS = "runs.csv", "common.yaml", "curves.csv.gz", "parameters.csv.gz"


def keep(runs: Iterable[Run], folder: Path) -> None:
    """Add runs to those in the folder; one of the same row, setting, scale, seed and configuration is replaced.

    Raises ValueError, and leaves the folder as it was, if what is there cannot be read.
    """
    make_folder(folder)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        there = unpack(folder) if (folder / RUNS).exists() else []
        files = pack({run.identity: run for run in [*there, *runs]}.values())
        for name in (
            CURVES,
            PARAMETERS,
            RUNS,
            COMMON,
        ):  # columns of runs.csv go before common.yaml's: between the two, both serve
            write_atomically(folder / name, files[name])
    finally:
        os.close(lock)


def pack(runs: Iterable[Run]) -> dict[str, bytes]:
    """The content of each file; the same for the same runs in any order."""
    ordered = sorted(runs, key=lambda run: run.order)
    lines, shared, twins = to_lines(ordered)
    records = _by_run_id(ordered)
    points = [
        {"run_id": run_id} | flatten(finite(point)) for run_id, record in records.items() for point in record.curve
    ]
    digests = [
        {"run_id": run_id, "worker": worker, "sha256": digest}
        for run_id, record in records.items()
        for worker, digest in enumerate(record.parameters_sha256 or [])
    ]
    point_columns = list(dict.fromkeys(["run_id", *(name for point in points for name in point)]))
    common = nest(shared) | {"same_as": twins}
    return {
        RUNS: write_csv(lines, columns(lines)),
        COMMON: yaml.safe_dump(common, sort_keys=False, allow_unicode=True, width=120).encode(),
        CURVES: gzip.compress(write_csv(points, point_columns), mtime=0),
        PARAMETERS: gzip.compress(write_csv(digests, ("run_id", "worker", "sha256")), mtime=0),
    }


def unpack(folder: Path) -> list[Run]:
    """The runs in a folder; ValueError that names the file, the line and what is wrong there."""
    common = _read_common(folder / COMMON)
    twins = common.pop("same_as")
    curves, digests = _read_curves(folder / CURVES), _read_digests(folder / PARAMETERS)
    runs = []
    for number, cells in read_csv(_read(folder / RUNS), str(folder / RUNS), FIRST):
        shared = {name: value for name, value in flatten(common).items() if name not in cells}
        own = {name: from_cell(text) for name, text in cells.items() if text}
        runs.append(to_run(shared | own, twins, curves, digests, f"{folder / RUNS}, line {number}"))
    return runs


def read_tables(path: Path) -> dict[str, list[Run]]:
    """The runs of each table under a folder, by the table's name: that of its folder with the one above, as p/gpt2."""
    folders = [file.parent.resolve() for file in sorted(path.rglob(RUNS))] if path.is_dir() else []
    return {"/".join(folder.parts[-2:]): unpack(folder) for folder in folders}


def read_single(path: Path) -> list[Record]:
    """The record in a file, or all `record.json` under a folder in the order of their paths."""
    paths = [path] if path.is_file() else sorted(path.rglob("record.json"))
    return [read(path) for path in paths]


def read_all(path: Path) -> list[Record]:
    """All records under a folder, those of tables and those in files of their own; or the record in a file."""
    return [run.record for runs in read_tables(path).values() for run in runs] + read_single(path)


def _by_run_id(runs: Iterable[Run]) -> dict[str, Record]:
    """The record of each run_id; ValueError if two different runs share one."""
    records: dict[str, Record] = {}
    for run in runs:
        if records.setdefault(run.record.run_id, run.record) != run.record:
            raise ValueError(f"run_id={run.record.run_id}: two different runs of the table have it")
    return records


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None


def _read_common(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(_read(path).decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    twins = content.get("same_as") if isinstance(content, dict) else None
    if not isinstance(twins, dict) or not all(isinstance(text, str) for pair in twins.items() for text in pair):
        raise ValueError(f"{path}: it has no 'same_as' with the columns that say the same as others")
    return content


def _read_curves(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The points of each run's curve, in order."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for number, cells in read_csv(_unzipped(path), str(path), ("run_id",)):
        point = {name: from_cell(text) for name, text in cells.items() if text}
        try:
            curves.setdefault(str(point.pop("run_id", "")), []).append(nest(point))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: column {error}") from None
    return curves


def _read_digests(path: Path) -> dict[str, list[str]]:
    """The sha256 of every worker's parameters, by run."""
    digests: dict[str, list[str]] = {}
    for _, cells in read_csv(_unzipped(path), str(path), ("run_id", "worker", "sha256")):
        digests.setdefault(str(from_cell(cells["run_id"])), []).append(str(from_cell(cells["sha256"])))
    return digests


def _unzipped(path: Path) -> bytes:
    try:
        return gzip.decompress(_read(path))
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: no whole gzip file ({error})") from None
