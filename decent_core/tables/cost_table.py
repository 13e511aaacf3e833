"""What the runs of tables cost, row by row: GPU-hours and bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

from decent_core.config.load import load
from decent_core.config.run_config import RunConfig
from decent_core.tables.costs import bytes_sent_per_step, row_elements
from decent_core.tables.plan import Cell
from decent_core.tables.planned_run import PlannedRun
from decent_core.tables.step_times import Sources, StepTime

MS_PER_HOUR = 3.6e6
GB = 1e9


@dataclass(frozen=True)
class RowCost:
    """Of one row: the runs that are left to do, and what each of them costs."""

    experiment: str
    config: RunConfig  # of its first run
    to_do: list[PlannedRun]
    finished: int
    time: StepTime
    bytes_per_step: float | None

    @property
    def gpu_hours(self) -> float | None:
        """Of all runs that are left, training steps alone."""
        if self.time.ms is None:
            return None
        return len(self.to_do) * self.config.trainer.steps * self.time.ms * self.config.world_size / MS_PER_HOUR

    @property
    def gigabytes(self) -> float | None:
        """That each worker sends in one run."""
        return None if self.bytes_per_step is None else self.config.trainer.steps * self.bytes_per_step / GB


def list_costs(cells: Sequence[Cell], sources: Sources) -> list[RowCost]:
    """What each row costs, in the order of the plan."""
    lines = []
    groups: dict[str, list[PlannedRun]] = {}
    for cell in cells:
        groups.setdefault(cell.experiment, []).append(cell.run)
    for experiment, runs in groups.items():
        config = load(runs[0].overrides)
        elements = row_elements(config)
        sent = None if elements is None else bytes_sent_per_step(config, elements)
        to_do = [run for run in runs if not run.finished()]
        lines.append(RowCost(experiment, config, to_do, len(runs) - len(to_do), sources.step_time(config), sent))
    return lines
