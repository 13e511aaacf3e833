"""How long a step of a run takes: as given, as measured in a record, or as published; never as guessed."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from decent_core.config.load import load
from decent_core.config.run_config import RunConfig
from decent_core.records.identity import WITHOUT_EFFECT, config_hash
from decent_core.records.published import Published, read_published
from decent_core.records.record import Record

#: runs that differ in these alone have the same steps
SAME_STEPS = WITHOUT_EFFECT | {"seed", "trainer.steps", "trainer.eval_every"}
DATA_KEYS = ("task.data_dir", "task.source_dir")


@dataclass(frozen=True)
class StepTime:
    """Milliseconds, or None where nothing says them; and who says so, or what would have to be given."""

    ms: float | None
    source: str


@dataclass(frozen=True)
class Sources:
    """Where step times come from."""

    given_ms: float | None
    records: Sequence[Record]
    published: Path
    device: str | None  # part of a device's name, if only its times are wanted

    def step_time(self, config: RunConfig) -> StepTime:
        """The first of: given, measured with an equal configuration on such a device, published for such a row."""
        if self.given_ms is not None:
            return StepTime(self.given_ms, "given as step_ms")
        for found in (self._measured(config), self._published(config)):
            times = {name: ms for name, ms in found.items() if (self.device or "").lower() in name.lower()}
            if len(times) == 1:
                ((name, ms),) = times.items()
                return StepTime(ms, name)
            if times:
                return StepTime(None, f"choose by device=: {'; '.join(times)}")
        return StepTime(None, "not known: give step_ms")

    def _measured(self, config: RunConfig) -> dict[str, float]:
        """Medians over the records of each device."""
        wanted = config_hash(config.as_dict(), SAME_STEPS)
        found = defaultdict(list)
        for record in self.records:
            if record.step_ms_p50 and config_hash(record.config, SAME_STEPS) == wanted:
                found[record.device].append(record.step_ms_p50)
        return {
            f"{len(times)} record{'s' * (len(times) > 1)}, {device}": statistics.median(times)
            for device, times in found.items()
        }

    def _published(self, config: RunConfig) -> dict[str, float]:
        """What was published for the row, or for one with the same task, workers, method and topology."""
        if config.scale != "paper" or _changes_the_task(config):
            return {}
        known = [
            (entry, entry.value)
            for entry in read_published(self.published)
            if entry.metric == "iteration_ms" and entry.value is not None
        ]
        own = [(entry, ms) for entry, ms in known if entry.experiment == config.experiment]
        chosen = own or [(entry, ms) for entry, ms in known if _is_like(entry, config)]
        return {f"published, {entry.item}: {entry.note.partition(';')[0]}": ms for entry, ms in chosen}


def _changes_the_task(config: RunConfig) -> bool:
    keys = [text.partition("=")[0] for text in config.overrides]
    return any(key.startswith("task.") and key not in DATA_KEYS for key in keys)


def _is_like(entry: Published, config: RunConfig) -> bool:
    shape = entry.task, entry.world_size, entry.local_size
    if shape != (config.task.name, config.world_size, config.local_size):
        return False
    return not entry.experiment or _exchange(entry.experiment) == (config.method.name, config.topology.name)


@cache
def _exchange(experiment: str) -> tuple[str, str]:
    config = load([f"experiment={experiment}", "scale=paper"])
    return config.method.name, config.topology.name
