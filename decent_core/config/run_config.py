"""The configuration of a run as frozen values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from decent_core.engine.settings import EngineSettings, TrainerSettings
from decent_core.records.identity import WITHOUT_EFFECT, config_hash, without
from decent_core.tracking.logger import Dashboard, NoLogger


@dataclass(frozen=True)
class Choice:
    """A method or a topology: its name in the code's registry, and all of its options."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class RunConfig:
    """Everything that a run is told."""

    seed: int
    world_size: int
    local_size: int | list[int] | None  # workers that share a node; a list: node by node
    out: str | None
    target: float | None  # of the task's primary metric; how long a run takes to reach it is reported
    resume: str  # auto, never, or the path of a checkpoint
    scale: str
    experiment: str | None  # the row of a published table, if it was chosen
    task: Any  # `Settings` of the task's package
    optimizer: Any  # one of decent_core.optim.OPTIMIZERS
    schedule: Any  # one of decent_core.optim.SCHEDULES
    method: Choice
    topology: Choice
    engine: EngineSettings
    trainer: TrainerSettings
    logger: NoLogger | Dashboard
    task_package: str  # where the code of the task is
    overrides: list[str]  # as given

    def explicit(self, key: str) -> bool:
        """Whether the user gave the dotted key."""
        return key in [text.partition("=")[0] for text in self.overrides]

    def as_dict(self, with_cadence: bool = True) -> dict[str, Any]:
        """Plain nested values with the keys of conf/, as they stand in a record.

        Without cadence: only the keys that a run's result depends on, as for `config_hash`.
        """
        plain = _plain(asdict(self))
        del plain["overrides"], plain["task_package"]
        for part in ("method", "topology"):
            plain[part] = {"name": plain[part]["name"], **plain[part]["options"]}
        return plain if with_cadence else without(plain, WITHOUT_EFFECT)

    @property
    def config_hash(self) -> str:
        """Equal for runs that give equal results; see `decent_core.records.identity.config_hash`."""
        return config_hash(self.as_dict())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
