"""From what `conf/` and the user's overrides say to a validated configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, make_dataclass, replace
from typing import Any, get_type_hints

from decent_core.config.checks import check
from decent_core.config.compose import compose
from decent_core.config.run_config import Choice, RunConfig
from decent_core.config.task_package import import_task
from decent_core.config.validation import validated
from decent_core.engine.settings import DistributedSettings, TrainerSettings, VirtualSettings
from decent_core.methods import METHODS
from decent_core.optim import OPTIMIZERS, SCHEDULES
from decent_core.tracking.logger import LOGGERS

ENGINES: dict[str, type] = {"virtual": VirtualSettings, "distributed": DistributedSettings}


def load(overrides: Sequence[str]) -> RunConfig:
    """Compose and validate; raises ValueError with the key and the value, before anything is built."""
    values, names = compose(overrides)
    package = str(names["package"])
    if any(text.startswith("schedule=") for text in overrides):  # a recipe's values are for the task's own schedule
        values["schedule"] = _known(SCHEDULES[values["schedule"]["name"]], values["schedule"], overrides)
    parts = {
        "task": validated(import_task(package).Settings, values["task"], "task."),
        "optimizer": _settings("optimizer", OPTIMIZERS, values),
        "schedule": _settings("schedule", SCHEDULES, values),
        "engine": _settings("engine", ENGINES, values),
        "logger": _settings("logger", LOGGERS, values),
        "trainer": validated(TrainerSettings, values["trainer"], "trainer."),
        "method": Choice(**_named(_method(values["method"]))),
        "topology": Choice(**_named(values["topology"])),
    }
    rest = {key: value for key, value in values.items() if key not in parts}
    plain = [(f.name, f.type) for f in fields(RunConfig) if f.name in rest]
    root: Any = validated(make_dataclass("Root", plain), rest)
    config = RunConfig(
        **asdict(root),
        scale=str(names["scale"]),
        experiment=names.get("experiment"),
        **parts,
        task_package=package,
        overrides=list(overrides),
    )
    if isinstance(config.engine, VirtualSettings) and config.local_size is None:
        config = replace(config, local_size=1)  # no launcher will say otherwise
    check(config)
    return config


def _known(cls: type, values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """What the schedule has a field for, and whatever the user gave, so that it is refused if there is none."""
    keys = {key.name for key in fields(cls)} | {text.partition("=")[0].removeprefix("schedule.") for text in overrides}
    return {key: value for key, value in values.items() if key in keys}


def _settings(part: str, registry: Mapping[str, type], values: Mapping[str, Any]) -> Any:
    return validated(registry[values[part]["name"]], values[part], f"{part}.")


def _method(values: Mapping[str, Any]) -> dict[str, Any]:
    """The method's options, checked against the fields of its class."""
    method = METHODS[values["name"]]
    hints = get_type_hints(method)
    options = [(option.name, hints[option.name]) for option in fields(method) if option.init]
    return asdict(validated(make_dataclass("Options", [("name", str), *options]), values, "method."))


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": values["name"], "options": {key: value for key, value in values.items() if key != "name"}}
