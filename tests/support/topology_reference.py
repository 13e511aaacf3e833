"""The topologies once more, slowly and literally: one matrix at a time, from the rule."""

import math

import numpy as np

from decent_core import topology

WORLDS = range(1, 34)
#: every registered topology but `file`, with the options that change its rounds
VARIANTS: list[tuple[str, dict]] = [
    *((name, {}) for name in topology.names() if name != "file"),
    ("base_k", {"k": 2}),
    ("base_k", {"k": 3}),
    ("equistatic", {"kind": "u", "seed": 3}),
    ("random_match", {"seed": 7}),
]


def served(name: str, n: int) -> bool:
    """Whether the topology serves n workers, one on each node."""
    power_of_two = n in (1, 2, 4, 8, 16, 32)
    return {
        "alternating_ring": n == 1 or n % 2 == 0,
        "one_peer_hypercube": power_of_two,
        "hypercube": power_of_two,
        "aer": power_of_two,
        "torus": n in (1, 4, 9, 16, 25),
    }.get(name, True)


def cases(worlds: range = WORLDS) -> list[tuple[str, dict, int]]:
    return [(name, options, n) for name, options in VARIANTS for n in worlds if served(name, n)]


def averaging(n: int, groups: list[list[int]]) -> np.ndarray:
    weights = np.eye(n)
    for group in groups:
        for i in group:
            weights[i] = 0
            for j in group:
                weights[i, j] = 1 / len(group)
    return weights


def from_offsets(n: int, offsets: dict[int, float]) -> np.ndarray:
    weights = np.zeros((n, n))
    for i in range(n):
        for u, weight in offsets.items():
            weights[i, (i + u) % n] += weight
    return weights


def uniform(n: int, neighbours: list[set[int]]) -> np.ndarray:
    weights = np.zeros((n, n))
    for i in range(n):
        for j in neighbours[i] | {i}:
            weights[i, j] = 1 / len(neighbours[i] | {i})
    return weights


def metropolis(n: int, neighbours: list[set[int]]) -> np.ndarray:
    weights = np.zeros((n, n))
    for i in range(n):
        for j in neighbours[i]:
            weights[i, j] = 1 / (1 + max(len(neighbours[i]), len(neighbours[j])))
        weights[i, i] = 1 - weights[i].sum()
    return weights


def grid_neighbours(rows: int, columns: int, joined: bool) -> list[set[int]]:
    found = []
    for r in range(rows):
        for c in range(columns):
            around = [(r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)]
            if joined:
                around = [(a % rows, b % columns) for a, b in around]
            found.append({a * columns + b for a, b in around if 0 <= a < rows and 0 <= b < columns} - {r * columns + c})
    return found


def aer(nodes: int, local_size: int) -> list[np.ndarray]:
    n = nodes * local_size
    workers = [list(range(j * local_size, (j + 1) * local_size)) for j in range(nodes)]
    matrices, count = [], 0
    for r in range(nodes.bit_length() - 1):
        rounds: list[list[list[int]]] = [[], []]
        for j in range(nodes):
            other = j ^ (1 << r)
            if j < other:
                joined, apart = (0, 1) if count % 2 else (1, 0)
                rounds[joined].append(workers[j] + workers[other])
                rounds[apart] += [workers[j], workers[other]]
                count += 1
        matrices += [averaging(n, groups) for groups in rounds]
    return matrices


def rounds(name: str, n: int) -> list[np.ndarray]:
    """All matrices of a period, for the topologies without chance or search."""
    hops = [2**k for k in range(math.ceil(math.log2(n)))] if n > 1 else []
    ring = [{(i - 1) % n, (i + 1) % n} - {i} for i in range(n)]
    m = math.isqrt(n)
    rows = max(d for d in range(1, m + 1) if n % d == 0)
    bits = range(n.bit_length() - 1)
    if n == 1:
        return [np.eye(1)]
    match name:
        case "complete":
            return [np.full((n, n), 1 / n)]
        case "ring":
            return [uniform(n, ring)]
        case "alternating_ring":
            return [averaging(n, [[i, (i + 1) % n] for i in range(start, n, 2)]) for start in (0, 1)]
        case "directed_ring":
            return [from_offsets(n, {0: 0.5, 1: 0.5})]
        case "one_peer_exp":
            return [from_offsets(n, {0: 0.5, hop: 0.5}) for hop in hops]
        case "push_exp":
            return [from_offsets(n, {0: 0.5, hop: 0.5}).T for hop in hops]
        case "one_peer_hypercube":
            return [averaging(n, [[i, i ^ 2**k] for i in range(n) if i < i ^ 2**k]) for k in bits]
        case "static_exp":
            return [from_offsets(n, dict.fromkeys([0, *hops], 1 / (len(hops) + 1)))]
        case "hypercube":
            return [uniform(n, [{i ^ 2**k for k in bits} for i in range(n)])]
        case "torus":
            return [uniform(n, grid_neighbours(m, m, joined=True))]
        case "grid":
            return [metropolis(n, grid_neighbours(rows, n // rows, joined=False))]
        case "star":
            return [metropolis(n, [set(range(1, n)), *({0} for _ in range(n - 1))])]
        case "aer":
            return aer(n, 1)
    raise AssertionError(name)
