"""What a user can choose by GROUP=NAME: files of conf/, rows of tables, and the code's methods and topologies."""

from dataclasses import MISSING, fields
from functools import cache
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.core.config_store import ConfigStore

from decent_core import topology
from decent_core.config.table_file import CONF, experiments
from decent_core.methods import METHODS

#: a file of conf/<group>/ each
FILE_GROUPS = ("optimizer", "schedule", "method", "topology", "engine", "logger")
GROUPS = ("task", "scale", "batch", "experiment", *FILE_GROUPS)
OWN_BATCH = "own"  # the global batch of the task at its scale
OPEN = "???"  # OmegaConf's mark of a value that must be given


def _defaults() -> dict[str, str]:
    """The task and scale of conf/config.yaml."""
    entries = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
    task, scale = next(entry["task"] for entry in entries if "task" in entry).split("/")
    return {"task": task, "scale": scale, "batch": OWN_BATCH}


#: what is chosen in the groups that are no Hydra groups unless something else is given
DEFAULTS = _defaults()


@cache
def choices(group: str) -> list[str]:
    """All names of a group, sorted."""
    if group == "experiment":
        return list(experiments())
    if group == "batch":
        return sorted({OWN_BATCH, *(batch for task in choices("task") for batch in batches(task))})
    if group in ("task", "scale"):
        files = [path for path in (CONF / "task").glob("*/*.yaml") if path.stem != "base"]
        return sorted({path.parent.name if group == "task" else path.stem for path in files})
    return sorted({*(path.stem for path in (CONF / group).glob("*.yaml")), *registry(group)})


def scales_of(task: str) -> list[str]:
    """The scales at which a task can be run."""
    return sorted(path.stem for path in (CONF / "task" / task).glob("*.yaml") if path.stem != "base")


@cache
def batches(task: str) -> dict[str, list[str]]:
    """The named batches of a task, and the scales at which there are such."""
    found: dict[str, list[str]] = {}
    for scale in scales_of(task):
        content = yaml.safe_load((CONF / "task" / task / f"{scale}.yaml").read_text())
        for batch in content.get("with_batch", {}):
            found.setdefault(batch, []).append(scale)
    return found


@cache
def keys_of(group: str, name: str) -> frozenset[str]:
    """The keys in the file of a choice."""
    return frozenset(yaml.safe_load((CONF / group / f"{name}.yaml").read_text()))


def registry(group: str) -> dict[str, dict[str, Any]]:
    """The code's methods or topologies: name -> its options and their defaults; nothing for other groups."""
    if group == "method":
        options = {
            name: {option.name: OPEN if option.default is MISSING else option.default
                   for option in fields(method) if option.init}
            for name, method in METHODS.items()
        }  # fmt: skip
    else:
        options = {name: topology.options(name) for name in topology.names()} if group == "topology" else {}
    return {name: {"name": name, **values} for name, values in options.items()}


@cache
def store_registries() -> None:
    """Let Hydra find methods and topologies that have no file in conf/, such as a user's own."""
    store = ConfigStore.instance()
    for group in ("method", "topology"):
        for name, values in registry(group).items():
            if not (CONF / group / f"{name}.yaml").exists():
                store.store(group=group, name=name, node=values)
