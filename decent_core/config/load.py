"""From conf/ and the user's overrides to a validated configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, make_dataclass, replace
from typing import Any, get_type_hints

from decent_core.config.checks import check
from decent_core.config.compose import compose
from decent_core.config.logger_settings import LOGGERS
from decent_core.config.run_config import Basics, Choice, RunConfig
from decent_core.config.task_package import import_task
from decent_core.config.trainer_settings import TrainerSettings
from decent_core.config.validation import validated
from decent_core.engine.settings import DistributedSettings, VirtualSettings
from decent_core.methods import METHODS
from decent_core.optim import OPTIMIZERS, SCHEDULES

ENGINES: dict[str, type] = {"virtual": VirtualSettings, "distributed": DistributedSettings}
#: parts of a configuration that a name chooses -> the settings of each name
NAMED: dict[str, Mapping[str, type]] = {
    "optimizer": OPTIMIZERS, "schedule": SCHEDULES, "engine": ENGINES, "logger": LOGGERS,
}  # fmt: skip


def load(overrides: Sequence[str]) -> RunConfig:
    """Compose and validate; raises ValueError with the key and the value, before anything is built."""
    values, names = compose(overrides)
    if any(text.startswith("schedule=") for text in overrides):  # the task's values are for its own schedule
        values["schedule"] = _known(SCHEDULES[values["schedule"]["name"]], values["schedule"], overrides)
    basics = validated(Basics, {key.name: values.pop(key.name) for key in fields(Basics)} | _unknown(values))
    config = RunConfig(
        **asdict(basics),
        **{part: validated(known[values[part]["name"]], values[part], f"{part}.") for part, known in NAMED.items()},
        task=validated(import_task(str(names["package"])).Settings, values["task"], "task."),
        trainer=validated(TrainerSettings, values["trainer"], "trainer."),
        method=_choice(_method(values["method"])),
        topology=_choice(values["topology"]),
        scale=str(names["scale"]),
        experiment=names["experiment"],
        task_package=str(names["package"]),
        overrides=list(overrides),
    )
    if isinstance(config.engine, VirtualSettings) and config.local_size is None:
        config = replace(config, local_size=1)  # no launcher will say otherwise
    check(config)
    return config


def _unknown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of conf/config.yaml that no part of a configuration takes."""
    return {key: value for key, value in values.items() if not isinstance(value, Mapping)}


def _known(cls: type, values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """What the schedule has a field for, and whatever the user gave, so that it is refused if there is none."""
    keys = {key.name for key in fields(cls)} | {text.partition("=")[0].removeprefix("schedule.") for text in overrides}
    return {key: value for key, value in values.items() if key in keys}


def _method(values: Mapping[str, Any]) -> dict[str, Any]:
    """The method's options, checked against the fields of its class."""
    method = METHODS[values["name"]]
    hints = get_type_hints(method)
    options = [(option.name, hints[option.name]) for option in fields(method) if option.init]
    return asdict(validated(make_dataclass("Options", [("name", str), *options]), values, "method."))


def _choice(values: Mapping[str, Any]) -> Choice:
    return Choice(values["name"], {key: value for key, value in values.items() if key != "name"})
