"""From conf/ and the user's overrides to a validated configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, make_dataclass, replace
from functools import cache
from typing import Any, get_type_hints

from decent_core.config.checks import check
from decent_core.config.compose import compose
from decent_core.config.logger_settings import LOGGERS
from decent_core.config.run_config import Basics, Choice, RunConfig
from decent_core.config.task_package import import_task
from decent_core.config.trainer_settings import TrainerSettings
from decent_core.config.validation import validated, validated_parts
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
    basics = validated(Basics, {key: value for key, value in values.items() if not isinstance(value, Mapping)})
    parts = validated_parts(_schema(values, names), values)
    config = RunConfig(
        **asdict(basics),
        **{part: settings for part, settings in parts.items() if part != "method"},
        method=_choice(asdict(parts["method"])),
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


def _schema(values: Mapping[str, Any], names: Mapping[str, str | None]) -> dict[str, type]:
    """The settings of each part; a topology's options are checked when it is built."""
    return {
        **{part: known[values[part]["name"]] for part, known in NAMED.items()},
        "task": import_task(str(names["package"])).Settings,
        "trainer": TrainerSettings,
        "method": _options(values["method"]["name"]),
    }


@cache
def _options(name: str) -> type:
    """The options of a method as a dataclass of their own."""
    method = METHODS[name]
    hints = get_type_hints(method)
    return make_dataclass("Options", [("name", str), *((o.name, hints[o.name]) for o in fields(method) if o.init)])


def _choice(values: Mapping[str, Any]) -> Choice:
    return Choice(values["name"], {key: value for key, value in values.items() if key != "name"})
