"""A user's own matrices from a .npy, .npz, .csv or .json file.

One matrix [N, N], or a period of T of them: [T, N, N] (.npy, nested lists in .json), one array a round (.npz, in the
file's order), or T x N rows one below the other (.csv, commas).
"""

import json
import zipfile
from pathlib import Path

import numpy as np

from decent_core.topology.layout import ClusterLayout
from decent_core.topology.make_rounds import peers
from decent_core.topology.rounds import Floats, Round
from decent_core.topology.schedule import Schedule, cycle

#: a larger error in a row's sum would move the workers' mean over a long run
TOLERANCE = 1e-10


def schedule(layout: ClusterLayout, path: str = "", directed: bool = False) -> Schedule:
    """Serves the world of the file's size. `directed`: only the columns must sum to 1, for the method `sgp`."""
    if not path:
        raise ValueError("path must name a .npy, .npz, .csv or .json file")
    matrices = _read(Path(path))
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or not len(matrices):
        raise ValueError(f"{path} must hold square matrices, got an array of shape {list(matrices.shape)}")
    if matrices.shape[1] != layout.size:
        raise ValueError(f"{path} serves world_size={matrices.shape[1]}")
    for step, matrix in enumerate(matrices):
        _check(matrix, directed, f"{path}, round {step}")
    return cycle([_round(matrix) for matrix in matrices], push=directed)


def _read(path: Path) -> Floats:
    """Float [T, N, N] if the file is well-formed, any other shape if not."""
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv, ".json": _read_json}
    if path.suffix not in readers:
        raise ValueError(f"{path} must end in one of {', '.join(readers)}")
    try:
        matrices = readers[path.suffix](path)
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} can't be read as matrices: {error}") from None
    return matrices[None] if matrices.ndim == 2 else matrices


def _read_npy(path: Path) -> Floats:
    return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)


def _read_npz(path: Path) -> Floats:
    with np.load(path, allow_pickle=False) as arrays:
        found = [np.asarray(arrays[key], dtype=np.float64) for key in arrays.files]
    return found[0] if len(found) == 1 else np.stack(found)


def _read_csv(path: Path) -> Floats:
    rows = np.array([line.split(",") for line in path.read_text().splitlines() if line.strip()], dtype=np.float64)
    width = rows.shape[-1]
    return rows.reshape(-1, width, width) if rows.ndim == 2 and len(rows) % width == 0 else rows


def _read_json(path: Path) -> Floats:
    return np.array(json.loads(path.read_text()), dtype=np.float64)


def _check(matrix: Floats, directed: bool, where: str) -> None:
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        i, j = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))[0]
        raise ValueError(f"{where}: weights must be numbers >= 0, got {matrix[i, j]} in row {i}, column {j}")
    if (np.diag(matrix) == 0).any():
        worker = int(np.argmin(np.diag(matrix)))
        raise ValueError(
            f"{where}: every worker must keep some of its own vector, worker {worker} has weight 0 on itself"
        )
    for axis, line in ((0, "column"), (1, "row")) if not directed else ((0, "column"),):
        sums = matrix.sum(axis=axis)
        worst = int(np.argmax(np.abs(sums - 1)))
        if abs(sums[worst] - 1) > TOLERANCE:
            kind = "columns" if directed else "rows and columns"
            hint = "" if directed or line == "column" else "; directed=true asks it of the columns alone"
            raise ValueError(f"{where}: {kind} must sum to 1, {line} {worst} sums to {sums[worst]:.12g}{hint}")


def _round(matrix: Floats) -> Round:
    links = matrix - np.diag(np.diag(matrix))
    receivers, senders = np.nonzero(links)
    return peers(len(matrix), receivers, senders, links[receivers, senders], np.diag(matrix))
