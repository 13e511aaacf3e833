"""The registry of published rows: which runs an item has at a scale, one for each experiment and seed.

An experiment is conf/experiment/<paper>/<item>/<row>.yaml. `p-table2` names all items of [P] that begin with `table2`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from decent_core.config.choices import choices
from decent_core.config.compose import MissingValue, NotAtThisScale
from decent_core.config.load import load
from decent_core.records.identity import item_of
from decent_core.tables.pool import Child


class NeedsLauncher(ValueError):
    """The experiment is about processes that exchange over a network."""


@dataclass(frozen=True)
class Planned:
    """The runs of some experiments at a scale, and why others of them have none, by name."""

    runs: tuple[Child, ...]
    left_out: dict[str, str]


def planned(
    experiments: str, scale: str, seeds: int, folder: Path, overrides: Sequence[str] = (), launched: bool = False
) -> Planned:
    """The runs of all experiments that fit one of the patterns (separated by spaces), with seeds 1 to `seeds`.

    `overrides` go to every run. `launched`: runs for a launcher, a process for each worker; otherwise experiments that
    need one are left out. Raises ValueError if no experiment fits.
    """
    if seeds < 1:
        raise ValueError(f"seeds={seeds}: must be at least 1")
    patterns = [_pattern(text) for text in experiments.split()]
    names = [name for name in choices("experiment") if any(fnmatch(name, pattern) for pattern in patterns)]
    if not names:
        raise ValueError(f"{experiments}: no such experiment or item; there are the items {', '.join(items())}")
    runs: list[Child] = []
    left_out: dict[str, str] = {}
    for name in names:
        try:
            for seed in range(1, seeds + 1):
                chosen = [f"experiment={name}", f"scale={scale}", f"seed={seed}", *overrides]
                chosen = _for_launcher(chosen) if launched else _for_one_process(chosen)
                runs.append(make_run(f"{name}-s{seed}", chosen, folder / scale))
        except (NotAtThisScale, MissingValue, NeedsLauncher) as error:
            left_out[name] = str(error)
    return Planned(tuple(runs), left_out)


def make_run(name: str, overrides: Sequence[str], folder: Path) -> Child:
    """A run in a folder under `folder` that names its configuration: a changed one is a new run."""
    config = load(overrides)
    place = folder / f"{name}-{config.config_hash[:8]}"
    return Child(name, tuple(overrides), place, config.config_hash, config.trainer.steps)


def _for_one_process(overrides: list[str]) -> list[str]:
    if load(overrides).engine.name != "virtual":
        raise NeedsLauncher("engine=distributed: it needs a launcher, as make submit or torchrun is")
    return overrides


def _for_launcher(overrides: list[str]) -> list[str]:
    """With all that the launcher would decide otherwise, and a record would then name another configuration."""
    distributed = [*overrides, "engine=distributed"]
    return distributed if load(distributed).local_size is not None else [*distributed, "local_size=1"]


def items() -> list[str]:
    """All items, as `p-table3`."""
    return sorted({item_of(name).replace("/", "-") for name in choices("experiment")})


def _pattern(text: str) -> str:
    """`p-table2` -> `p/table2*/*`; a pattern of names stays."""
    return text if "/" in text or "*" in text else f"{text.replace('-', '/', 1)}*/*"
