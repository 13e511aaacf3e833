"""A cluster's profile, slurm/cluster/<site>.env: how its Slurm is asked for nodes, and where runs are kept."""

import os
import re
import shlex
import subprocess
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from decent_core.config.validation import no_such
from decent_core.records.provenance import ROOT

PROFILES = Path("slurm/cluster")  # under the checkout
ASSIGNMENT = re.compile(r"^([A-Z_]+)=", re.MULTILINE)  # those behind `export` are for the training processes
NUMBERS = ("GPUS_PER_NODE", "WORKERS_PER_NODE", "CPUS_PER_WORKER", "SIGNAL_SECONDS", "AT_ONCE")


@dataclass(frozen=True)
class Cluster:
    """The variables of a profile, as slurm/cluster/example.env explains them."""

    path: Path
    account: str
    partition: str
    qos: str
    gpus_per_node: int
    workers_per_node: int
    cpus_per_worker: int
    time: str
    signal_seconds: int
    at_once: int
    options: str
    modules: str
    python: str
    folder: str

    def workers_on_nodes(self, world_size: int) -> tuple[int, int]:
        """(nodes, workers on each) for a run; ValueError if its workers would not fill the nodes evenly."""
        workers = min(self.workers_per_node, world_size)
        if world_size % workers:
            raise ValueError(
                f"world_size={world_size}: does not fill nodes of {workers} workers (WORKERS_PER_NODE in {self.path}); "
                f"give a multiple of {workers}"
            )
        return world_size // workers, workers

    def common_options(self) -> list[str]:
        """Options of sbatch for every job."""
        named = {"account": self.account, "partition": self.partition, "qos": self.qos}
        return [f"--{name}={value}" for name, value in named.items() if value]

    def array_options(self, workers: int) -> list[str]:
        """Options of sbatch for runs of so many workers a node."""
        gpus = min(self.gpus_per_node, workers)
        return [
            "--ntasks-per-node=1",
            f"--cpus-per-task={workers * self.cpus_per_worker}",
            *([f"--gpus-per-node={gpus}"] if gpus else []),
            f"--time={self.time}",
            f"--signal=USR1@{self.signal_seconds}",
            *self.common_options(),
            *shlex.split(self.options),
        ]


def load_cluster(name: str) -> Cluster:
    """The profile `slurm/cluster/<name>.env`, or the file if `name` ends with .env.

    Raises ValueError for an unknown cluster, and for a variable that is unknown, missing or no number.
    """
    path = Path(name) if name.endswith(".env") else PROFILES / f"{name}.env"
    if not (ROOT / path).exists():
        known = [profile.stem for profile in (ROOT / PROFILES).glob("*.env")]
        raise ValueError(f"cluster={name}: {no_such('cluster', name, known)}, or write {path} after example.env")
    keys = [field.name.upper() for field in fields(Cluster)[1:]]
    for key in ASSIGNMENT.findall((ROOT / path).read_text()):
        if key not in keys:
            raise ValueError(f"{path}: {key}: {no_such('variable', key, keys)}; what the runs are to see is exported")
    values = _source(path, keys)
    for key in NUMBERS:
        smallest = 0 if key == "GPUS_PER_NODE" else 1
        if not values[key].isdecimal() or int(values[key]) < smallest:
            raise ValueError(f"{path}: {key}={values[key]}: must be a whole number, at least {smallest}")
    values["FOLDER"] = str(ROOT / values["FOLDER"])  # jobs start in the checkout
    given: dict[str, Any] = {key.lower(): int(text) if key in NUMBERS else text for key, text in values.items()}
    return Cluster(path, **given)


def _source(path: Path, keys: list[str]) -> dict[str, str]:
    """The variables as bash sees them behind the file."""
    lines = """
source "$0"
for key in "$@"; do
  if [ -z "${!key+set}" ]; then echo "$key: not set" >&2; exit 1; fi
  printf '%s\\0' "${!key}"
done
"""
    sourced = str(ROOT / path)
    environment = {key: value for key, value in os.environ.items() if key not in keys}
    command = ["bash", "-euc", lines, sourced, *keys]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"bash ended with status {done.returncode}"]
        raise ValueError(f"{path}: {said[0].removeprefix(f'{sourced}: ')}")
    return dict(zip(keys, done.stdout.split("\0")[:-1], strict=True))
