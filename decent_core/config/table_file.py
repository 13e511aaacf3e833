"""Table files: conf/table/<paper>/<item>.yaml holds all rows of one published table or figure, or of a study."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml  # type: ignore[import-untyped]

from decent_core.config.validation import no_such, validated
from decent_core.records.provenance import ROOT

CONF = ROOT / "conf"
TABLES = CONF / "table"
Choices = dict[str, Any]  # key of an override, such as `method` or `optimizer.window` -> its value


@dataclass(frozen=True)
class Row:
    """One line of a table: what is chosen, beside what all rows share."""

    key: str
    label: str
    choices: Choices
    rates: tuple[float, ...] | None  # learning rates to compare; None: the setting's or the table's


@dataclass(frozen=True)
class Setting:
    """Circumstances under which all rows are compared, such as a batch size."""

    key: str
    label: str
    choices: Choices
    rates: tuple[float, ...] | None


@dataclass(frozen=True)
class TableFile:
    """The content of a table file. A table without rows is shown by something else, which `shown_by` says."""

    name: str  # such as p/gpt2
    title: str
    rows: tuple[Row, ...]
    settings: tuple[Setting, ...]  # at least one; a table without settings has one without key, label and choices
    common: Choices  # of all rows
    at_scale: Mapping[str, Choices]  # scale -> what all rows have there
    scale: str | None  # at which it is run unless another is asked for
    seeds: int
    rates: tuple[float, ...]  # learning rates to compare; none: each row at its task's own
    baseline: str | None  # key of the row that differences are taken to
    highlight: str | None  # key of the row whose lead over each other row is shown
    notes: tuple[str, ...]
    shown_by: str | None

    def row(self, key: str) -> Row:
        """The row of this key; ValueError if there is none."""
        for row in self.rows:
            if row.key == key:
                return row
        raise ValueError(f"{self.name}/{key}: {no_such('row', key, [row.key for row in self.rows])}")

    @property
    def compares_rates(self) -> bool:
        """Whether each row is run at learning rates that the table names."""
        return any(self.rates_of(setting, row) for setting in self.settings for row in self.rows)

    def rates_of(self, setting: Setting, row: Row) -> tuple[float, ...]:
        """The learning rates at which a row is run in a setting; none: its task's own."""
        return row.rates or setting.rates or self.rates

    def choices_of(self, row: Row, scale: str) -> Choices:
        """All that `experiment=<table>/<row>` chooses at a scale; a later entry wins."""
        return {**self.common, **row.choices, **self.at_scale.get(scale, {})}


@dataclass(frozen=True)
class _Content:
    """A table file as it is written."""

    title: str
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    common: Choices = field(default_factory=dict)
    at_scale: dict[str, Choices] = field(default_factory=dict)
    scale: str | None = None
    seeds: int = 1
    rates: tuple[float, ...] = ()
    baseline: str | None = None
    highlight: str | None = None
    notes: tuple[str, ...] = ()
    shown_by: str | None = None


def table_names() -> list[str]:
    """All tables, such as `p/gpt2`, in alphabetical order."""
    return sorted(path.relative_to(TABLES).with_suffix("").as_posix() for path in TABLES.rglob("*.yaml"))


@cache
def load_table(name: str) -> TableFile:
    """Read and check a table; ValueError if there is none of the name, or something in its file is wrong."""
    if name not in table_names():
        raise ValueError(f"table={name}: {no_such('table', name, table_names())}")
    where = f"conf/table/{name}.yaml: "
    try:
        content = yaml.safe_load((TABLES / f"{name}.yaml").read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{where}{' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{where}a table has keys such as title and rows")
    found = validated(_Content, content, where)
    for key in ("baseline", "highlight"):
        row = getattr(found, key)
        if row is not None and row not in found.rows:
            raise ValueError(f"{where}{key}={row}: {no_such('row', row, found.rows)}")
    if bool(found.rows) == bool(found.shown_by):
        raise ValueError(f"{where}give either rows, or in shown_by what shows it")
    settings = found.settings or {"": {"label": ""}}
    return TableFile(
        name=name,
        rows=tuple(Row(key, *_parts(key, entry, f"{where}rows.{key}.")) for key, entry in found.rows.items()),
        settings=tuple(Setting(key, *_parts(key, entry, f"{where}settings.{key}.")) for key, entry in settings.items()),
        **{key: value for key, value in vars(found).items() if key not in ("rows", "settings")},
    )


def _parts(key: str, entry: Mapping[str, Any], where: str) -> tuple[str, Choices, tuple[float, ...] | None]:
    """Label, choices and learning rates of a row or a setting."""
    label, rates = entry.get("label", key), entry.get("rates")
    if not isinstance(label, str):
        raise ValueError(f"{where}label={label}: must be a text")
    if rates is not None and not (isinstance(rates, list) and rates and all(type(r) in (int, float) for r in rates)):
        raise ValueError(f"{where}rates={rates}: must be a list of learning rates such as [0.1, 0.3]")
    choices = {name: value for name, value in entry.items() if name not in ("label", "rates")}
    return label, choices, None if rates is None else tuple(map(float, rates))


@cache
def experiments() -> tuple[str, ...]:
    """All rows of all tables, such as `p/gpt2/dadam_aer`, in alphabetical order."""
    return tuple(sorted(f"{name}/{row.key}" for name in table_names() for row in load_table(name).rows))


def find_row(experiment: str) -> tuple[TableFile, Row]:
    """The table and the row of `experiment=<table>/<row>`; ValueError if there is none."""
    if experiment not in experiments():
        raise ValueError(f"experiment={experiment}: {no_such('experiment', experiment, experiments())}")
    table, _, key = experiment.rpartition("/")
    return load_table(table), load_table(table).row(key)
