"""The configuration of a run as frozen values, and the parts that are built from it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from decent_core import topology
from decent_core.config.logger_settings import LoggerSettings
from decent_core.config.trainer_settings import TrainerSettings
from decent_core.engine.settings import EngineSettings
from decent_core.methods import METHODS, Method
from decent_core.records.identity import WITHOUT_EFFECT, config_hash, without
from decent_core.topology import Topology


@dataclass(frozen=True)
class Choice:
    """A method or a topology: its name in the code's registry, and all of its options."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Basics:
    """The keys of a configuration that belong to no part."""

    seed: int
    world_size: int
    local_size: int | list[int] | None  # workers that share a node; a list: node by node
    out: str | None
    target: float | None  # of the task's primary metric; how long a run takes to reach it is reported
    resume: str  # auto, never, or the path of a checkpoint


@dataclass(frozen=True)
class RunConfig(Basics):
    """Everything that a run is configured with."""

    scale: str
    experiment: str | None  # the row of a table, if it was chosen
    task: Any  # `Settings` of the task's package
    task_package: str  # where the code of the task is
    optimizer: Any  # one of decent_core.optim.OPTIMIZERS
    schedule: Any  # one of decent_core.optim.SCHEDULES
    method: Choice
    topology: Choice
    engine: EngineSettings
    trainer: TrainerSettings
    logger: LoggerSettings
    overrides: list[str]  # as given

    @cached_property
    def built_topology(self) -> Topology:
        """The topology over this configuration's workers; ValueError if it can't serve them."""
        return topology.build(self.topology.name, self.world_size, self.local_size or 1, **self.topology.options)

    def build_method(self) -> Method:
        """The method, without state; ValueError for an option out of range."""
        return METHODS[self.method.name](**self.method.options)

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step."""
        return self.optimizer.lr * self.schedule.factor(step, self.trainer.steps)

    @cached_property
    def peak_lr(self) -> float:
        """The highest learning rate of the run."""
        return max(map(self.learning_rate, range(self.trainer.steps)))

    def explicit(self, key: str) -> bool:
        """Whether the user gave the dotted key."""
        return key in [text.partition("=")[0] for text in self.overrides]

    def as_dict(self) -> dict[str, Any]:
        """Plain nested values with the keys of conf/, as they stand in a record."""
        plain = _plain(asdict(self))
        del plain["overrides"], plain["task_package"]
        for part in ("method", "topology"):
            plain[part] = {"name": plain[part]["name"], **plain[part]["options"]}
        return plain

    def result_keys(self) -> dict[str, Any]:
        """`as_dict` with the keys alone that a run's result depends on, as for `config_hash`."""
        return without(self.as_dict(), WITHOUT_EFFECT)

    @property
    def config_hash(self) -> str:
        """Equal for runs that give equal results; see `decent_core.records.identity.config_hash`."""
        return config_hash(self.as_dict())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
