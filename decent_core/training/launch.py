"""Where a launcher has put this process: torchrun, srun, mpirun (Open MPI, MPICH) or none."""

import os
import socket
import subprocess
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from decent_core.engine.distributed import gather_objects
from decent_core.system.processes import ends_process

#: launcher: (rank, world size, rank on the node), as each sets them; looked at in this order
VARIABLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "mpirun (Open MPI)": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "mpirun (MPICH)": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
}
DEFAULT_PORT = 29500
GRACE_SECONDS = 5.0  # torch has the time-out too, and ends first where it can


@dataclass(frozen=True)
class Launch:
    """This process among those of the job."""

    launcher: str
    rank: int
    world_size: int
    local_rank: int


def find_launch(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """What the launcher says; None without one. An interactive Slurm allocation alone is no launcher.

    Raises ValueError if a launcher's variables are incomplete.
    """
    for launcher, names in VARIABLES.items():
        found = [environment.get(name) for name in names]
        if found[0] is None or (launcher == "srun" and "SLURM_STEP_ID" not in environment):
            continue
        if missing := [name for name, value in zip(names, found, strict=True) if value is None]:
            raise ValueError(f"{launcher} has set {names[0]} but not {', '.join(missing)}")
        rank, size, local_rank = (
            _whole_number(name, value) for name, value in zip(names, found, strict=True) if value is not None
        )
        if rank >= size:
            raise ValueError(f"{names[0]}={rank}: must be below {names[1]}={size}")
        return Launch(launcher, rank, size, local_rank)
    return None


def _whole_number(name: str, text: str) -> int:
    """The value of an environment variable; ValueError that names it unless it is a whole number, 0 or more."""
    if not text.isdecimal():
        raise ValueError(f"{name}={text}: must be a whole number, at least 0")
    return int(text)


def choose_device(local_rank: int) -> torch.device:
    """The node's `local_rank`-th accelerator, the only visible one if the launcher has assigned it, else the CPU.

    Raises ValueError if a node has more workers than visible accelerators.
    """
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    kind, count = torch.accelerator.current_accelerator(), torch.accelerator.device_count()
    assert kind is not None
    if count > 1 and local_rank >= count:
        raise ValueError(
            f"worker {local_rank} of this node has no accelerator: {count} are visible; start at most {count} a node"
        )
    device = torch.device(kind.type, local_rank if count > 1 else 0)
    torch.accelerator.set_device_index(device.index)
    return device


def join(launch: Launch, timeout_seconds: float) -> torch.device:
    """Join the job's default process group; returns the device of this process.

    gloo carries CPU tensors, and NCCL (or the like) the accelerator's. Raises ValueError if the first process's address
    is unknown, if the processes can't meet there, or if a node has more workers than accelerators. A process whose
    connection is taken but never answered ends with status 2 and a message after the time-out.
    """
    device = choose_device(launch.local_rank)
    address = os.environ.get("MASTER_ADDR") or _first_host(launch)
    port = os.environ.get("MASTER_PORT") or str(_port_of_job())
    if not 0 < _whole_number("MASTER_PORT", port) < 65536:
        raise ValueError(f"MASTER_PORT={port}: must be a port, 1 to 65535")
    os.environ.update(MASTER_ADDR=address, MASTER_PORT=port)
    backend = "cpu:gloo"
    if device.type != "cpu":
        backend += f",{device.type}:{dist.get_default_backend_for_device(device.type)}"
    where = f"rank {launch.rank} could not meet the others at MASTER_ADDR={address}, MASTER_PORT={port}"
    with ends_process(timeout_seconds + GRACE_SECONDS, f"{where}: no answer within {timeout_seconds:g} s"):
        try:
            dist.init_process_group(
                backend, rank=launch.rank, world_size=launch.world_size, timeout=timedelta(seconds=timeout_seconds)
            )
        except dist.DistError as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{where}: {reason} Is the port taken, or was a rank not started?") from None
    return device


def workers_per_node(group: dist.ProcessGroup | None = None) -> list[int]:
    """How many workers each node holds, in rank order, from the names of all ranks' nodes.

    Raises ValueError, on every rank, if a node's ranks are not consecutive.
    """
    hosts = gather_objects(os.environ.get("SLURMD_NODENAME") or socket.gethostname(), group)
    runs: list[tuple[str, int]] = []
    for host in hosts:
        if runs and runs[-1][0] == host:
            runs[-1] = (host, runs[-1][1] + 1)
        else:
            runs.append((host, 1))
    if len({host for host, _ in runs}) != len(runs):
        raise ValueError(
            f"the ranks of a node must be consecutive (block distribution); the hosts in rank order are {hosts}"
        )
    return [count for _, count in runs]


def _first_host(launch: Launch) -> str:
    """The host of rank 0, where the launcher tells it."""
    if launch.launcher == "srun":
        nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ["SLURM_JOB_NODELIST"]
        shown = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True)
        return shown.stdout.split()[0]
    on_this_node = os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") or os.environ.get("MPI_LOCALNRANKS")
    if on_this_node is not None and int(on_this_node) == launch.world_size:
        return "127.0.0.1"
    raise ValueError(f"{launch.launcher} does not tell where rank 0 runs: set MASTER_ADDR to its host on every rank")


def _port_of_job() -> int:
    """One port for all ranks of a job, and most likely another for another job on the same host."""
    job = os.environ.get("SLURM_JOB_ID") or os.environ.get("PMIX_NAMESPACE")
    step = os.environ.get("SLURM_STEP_ID", "")
    return DEFAULT_PORT if job is None else 10_000 + zlib.crc32(f"{job}.{step}".encode()) % 20_000
