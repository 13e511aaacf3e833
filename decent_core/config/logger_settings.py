"""Settings of the dashboard that a run is sent to. The values stand in conf/logger."""

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True)
class NoLogger:
    """Nothing is sent: the metrics log and the record are all there is."""

    name: Literal["none"]


@dataclass(frozen=True)
class Dashboard:
    """One run in a dashboard for the training run."""

    title: ClassVar[str]
    name: str
    project: str
    timeout_seconds: float  # what the dashboard may take to start, and again to finish, before it is left behind

    def __post_init__(self) -> None:
        if not self.timeout_seconds > 0:
            raise ValueError(f"logger.timeout_seconds={self.timeout_seconds}: must be more than 0")


@dataclass(frozen=True)
class WandbLogger(Dashboard):
    """Weights & Biases."""

    title: ClassVar[str] = "W&B"
    name: Literal["wandb"]
    mode: Literal["offline", "online"]  # offline: into files under the run's folder, for `wandb sync`
    entity: str | None  # a user or a team; null: W&B's own default


@dataclass(frozen=True)
class TrackioLogger(Dashboard):
    """Trackio, on this machine alone."""

    title: ClassVar[str] = "trackio"
    name: Literal["trackio"]
    folder: str  # of the database that the runs share


LoggerSettings = NoLogger | Dashboard
LOGGERS: dict[str, type] = {"none": NoLogger, "wandb": WandbLogger, "trackio": TrackioLogger}
