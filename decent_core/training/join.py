"""Joins the workers of a run: how many there are, on which nodes, and which of them this process trains."""

import os
from dataclasses import replace

import torch

from decent_core.config.run_config import RunConfig
from decent_core.engine.communicator import Communicator
from decent_core.engine.distributed import DistributedCommunicator
from decent_core.engine.settings import DistributedSettings
from decent_core.engine.virtual import VirtualCommunicator
from decent_core.methods import METHODS
from decent_core.topology import Topology
from decent_core.training.handshake import check_agreement
from decent_core.training.launch import Launch, choose_device, find_launch, join, workers_per_node

Joined = tuple[RunConfig, Communicator, torch.device, Topology]


def join_communicator(config: RunConfig) -> Joined:
    """The communicator of this process, and the configuration with the sizes that the launcher decides.

    Raises ValueError if launcher and configuration do not fit.
    """
    launch = find_launch()
    if isinstance(config.engine, DistributedSettings):
        return _join_distributed(config, config.engine, _check_launch(config, launch))
    if launch is not None and launch.world_size > 1:
        raise ValueError(
            f"engine=virtual: {launch.launcher} has started {launch.world_size} processes, and each would train all "
            "workers; start one process, or give engine=distributed"
        )
    return config, VirtualCommunicator(config.world_size), choose_device(0), config.built_topology


def use_threads(config: RunConfig, communicator: Communicator) -> None:
    """As configured; else a process takes its share of the node's cores, and one process takes torch's default."""
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
    elif communicator.processes > 1 and "OMP_NUM_THREADS" not in os.environ:
        sizes = config.local_size if isinstance(config.local_size, list) else [config.local_size or 1]
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // max(sizes)))


def _check_launch(config: RunConfig, launch: Launch | None) -> Launch:
    if launch is None:
        raise ValueError(
            "engine=distributed: no launcher found; start with torchrun --nproc-per-node=N -m scripts.train ... "
            "(or srun, or mpirun), or give engine=virtual for N workers in this process"
        )
    chosen = config.explicit("world_size") or config.experiment is not None
    if chosen and launch.world_size != config.world_size:
        raise ValueError(
            f"world_size={config.world_size}: {launch.launcher} has started {launch.world_size} processes; start "
            f"{config.world_size}, or give world_size={launch.world_size}"
        )
    return launch


def _join_distributed(config: RunConfig, engine: DistributedSettings, launch: Launch) -> Joined:
    config = replace(config, world_size=launch.world_size)
    if config.local_size is not None:
        _ = config.built_topology  # before the ranks meet, so that a mistake shows at once
    device = join(launch, engine.timeout_seconds)
    check_agreement(config, device)
    if config.local_size is None:
        nodes = workers_per_node()
        config = replace(config, local_size=nodes[0] if len(set(nodes)) == 1 else nodes)
    built = config.built_topology
    exchanges = not METHODS[config.method.name].averages_gradients
    return config, DistributedCommunicator(engine, built if exchanges else None, device), device, built
