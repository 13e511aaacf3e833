"""What all ranks of a run must have in common, compared before anything is built."""

from typing import Any

import torch

from decent_core.config.run_config import RunConfig
from decent_core.engine.distributed import gather_objects
from decent_core.records.identity import flatten
from decent_core.records.provenance import git_state, versions

#: keys of a configuration in which ranks may differ: where data lies on a node, threads, who sends to a dashboard
OWN_KEYS = ("task.data_dir", "task.source_dir", "trainer.threads", "logger.")


def check_agreement(config: RunConfig, device: torch.device) -> None:
    """Raises ValueError on every rank if two ranks differ, with the first difference and who has which value.

    Every rank of the default process group calls it; it waits as long as that group's time-out.
    """
    if problem := first_difference(gather_objects(_facts(config, device))):
        raise ValueError(f"{problem}; start all ranks with the same command, code and environment")


def first_difference(everyone: list[dict[str, str]]) -> str | None:
    """The first fact in which ranks differ, such as `seed: 1 on rank 0, 2 on rank 1`; None if they agree."""
    for key in dict.fromkeys(key for facts in everyone for key in facts):
        ranks: dict[str, list[int]] = {}
        for rank, facts in enumerate(everyone):
            ranks.setdefault(facts.get(key, "nothing"), []).append(rank)
        if len(ranks) > 1:
            return f"{key}: {', '.join(f'{value} on {_ranks(which)}' for value, which in ranks.items())}"
    return None


def _ranks(numbers: list[int]) -> str:
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _facts(config: RunConfig, device: torch.device) -> dict[str, str]:
    """Configuration, device, code and libraries of this rank, as text."""
    keys: dict[str, Any] = {
        key: value for key, value in flatten(config.as_dict()).items() if not key.startswith(OWN_KEYS)
    }
    commit, dirty = git_state()
    code = {"commit": commit, "uncommitted changes": dirty}
    packages = {f"version of {name}": version for name, version in versions().items()}
    return {key: str(value) for key, value in (keys | {"device": device.type} | code | packages).items()}
