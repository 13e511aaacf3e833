"""A user's own matrices from a file: every format, and every mistake in them."""

import json
import re

import numpy as np
import pytest

from decent_core import topology
from decent_core.topology import GroupRound, PeerRound

RING = topology.build("ring", 5).matrix(0)
PAIR = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
PERIOD = np.stack((PAIR, PAIR[[2, 0, 1]][:, [2, 0, 1]]))


def write(path, array):
    match path.suffix:
        case ".npy":
            np.save(path, array)
        case ".npz":
            np.savez(path, *(array if array.ndim == 3 else [array]))
        case ".csv":
            np.savetxt(path, array.reshape(-1, array.shape[-1]), delimiter=",", fmt="%.17g")
        case ".json":
            path.write_text(json.dumps(array.tolist()))
    return str(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".json"])
def test_file_topology_reads_one_matrix_and_a_period(tmp_path, suffix):
    static = topology.build("file", 5, path=write(tmp_path / f"ring{suffix}", RING))
    assert static.period == 1
    assert isinstance(static.round(0), PeerRound)
    np.testing.assert_allclose(static.matrix(3), RING, rtol=0, atol=1e-16)
    cycle = topology.build("file", 3, path=write(tmp_path / f"cycle{suffix}", PERIOD))
    assert cycle.period == 2
    assert isinstance(cycle.round(1), GroupRound)
    for step in range(4):
        np.testing.assert_array_equal(cycle.matrix(step), PERIOD[step % 2])


def test_file_topology_directed_needs_columns_only(tmp_path):
    pushed = np.array([[0.5, 0, 0.2], [0.5, 0.6, 0], [0, 0.4, 0.8]])
    path = write(tmp_path / "push.npy", pushed)
    t = topology.build("file", 3, path=path, directed=True)
    assert t.push
    np.testing.assert_array_equal(t.matrix(0), pushed)
    assert t.round(0).plan(0).receives == ((2, 0.2),)
    assert t.round(0).plan(0).sends == (1,)
    with pytest.raises(ValueError, match=r"rows and columns must sum to 1, row 0 sums to 0\.7; directed=true asks"):
        topology.build("file", 3, path=path)
    with pytest.raises(ValueError, match=r"round 0: columns must sum to 1, column 0 sums to 0\.7"):
        topology.build("file", 3, path=write(tmp_path / "pull.npy", pushed.T), directed=True)


def changed(i: int, j: int, weight: float) -> np.ndarray:
    matrix = RING.copy()
    matrix[i, j] = weight
    return matrix


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (RING[:4], "must hold square matrices, got an array of shape [1, 4, 5]"),
        (np.stack((RING, changed(0, 0, 0.5))), "round 1: rows and columns must sum to 1, column 0 sums to"),
        (changed(1, 2, -0.1), "weights must be numbers >= 0, got -0.1 in row 1, column 2"),
        (changed(1, 2, np.nan), "weights must be numbers >= 0, got nan in row 1, column 2"),
        (RING.astype(np.float32), "rows and columns must sum to 1"),
        (np.eye(5)[[1, 0, 2, 3, 4]], "every worker must keep some of its own vector, worker 0"),
        (np.eye(4), "serves world_size=4"),
        (np.zeros((0, 5, 5)), "must hold square matrices"),
        (np.array("ring"), "can't be read as matrices"),
    ],
)
def test_file_topology_refuses_matrices_that_do_not_average(tmp_path, array, says):
    path = write(tmp_path / "own.npy", array)
    with pytest.raises(ValueError, match=rf"topology file with world_size=5.*own\.npy.*{re.escape(says)}"):
        topology.build("file", 5, path=path)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("own.csv", "0.5,0.5\n0.5,half\n", "can't be read as matrices: could not convert string"),
        ("own.csv", "0.5,0.5\n0.5\n", "can't be read as matrices"),
        ("own.csv", "", "must hold square matrices"),
        ("own.json", "[[1, 0], [0, 1", "can't be read as matrices"),
        ("own.json", '{"ring": 1}', "can't be read as matrices"),
        ("own.npz", "no archive", "can't be read as matrices"),
        ("own.npy", "", "can't be read as matrices"),
        ("own.txt", "1", "must end in one of .npy, .npz, .csv, .json"),
    ],
)
def test_file_topology_refuses_files_that_hold_no_matrix(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=re.escape(says)):
        topology.build("file", 2, path=str(tmp_path / name))


def test_file_topology_needs_a_file_that_exists(tmp_path):
    with pytest.raises(ValueError, match=r"path must name a \.npy"):
        topology.build("file", 2)
    with pytest.raises(ValueError, match="No such file"):
        topology.build("file", 2, path=str(tmp_path / "nowhere.npy"))
