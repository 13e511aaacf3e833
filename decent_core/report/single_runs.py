"""Finds the tables that compare learning rates to which records in files of their own belong."""

from collections.abc import Mapping, Sequence

import yaml  # type: ignore[import-untyped]

from decent_core.config.table_file import Setting, TableFile, experiments, find_row
from decent_core.records.identity import WITHOUT_EFFECT
from decent_core.records.lines import Run
from decent_core.records.record import Record

#: overrides that any run of such a table may have
OF_ANY_RUN = WITHOUT_EFFECT | {"seed", "engine", "optimizer.lr"}


def sort_out(records: Sequence[Record]) -> tuple[dict[str, list[Run]], list[Record]]:
    """The runs of tables that compare learning rates, by table, and all other records.

    Where a run has other overrides than its table makes, that table at that scale is no comparison: all its runs are
    others.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((_table_name(record), record.scale), []).append(record)
    tables: dict[str, list[Run]] = {}
    others: list[Record] = []
    for (name, _), group in groups.items():
        runs = [_run(record) for record in group] if name else []
        placed = [run for run in runs if run is not None]
        if name and len(placed) == len(group):
            tables.setdefault(name, []).extend(latest(placed))
        else:
            others += group
    return tables, others


def _table_name(record: Record) -> str:
    """The table that compares learning rates of which the record's experiment is a row; empty: there is none."""
    if record.experiment not in experiments():
        return ""
    table, _ = find_row(str(record.experiment))
    return table.name if table.compares_rates else ""


def _run(record: Record) -> Run | None:
    """The record with its place in its table; None if it has none there."""
    table, row = find_row(str(record.experiment))
    overrides = {key: value for key, _, value in (text.partition("=") for text in record.overrides)}
    chosen = {key: _value(value) for key, value in overrides.items() if key not in OF_ANY_RUN}
    setting = _setting(table, chosen)
    if setting is None:
        return None
    run = Run(row.key, setting.key, record)
    return run if run.learning_rate in table.rates_of(setting, row) else None


def _value(text: str) -> object:
    """The value of an override; the text itself where only Hydra can read it."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _setting(table: TableFile, chosen: Mapping[str, object]) -> Setting | None:
    return next((setting for setting in table.settings if setting.choices == chosen), None)


def latest(runs: Sequence[Run]) -> list[Run]:
    """Of several runs of one configuration and seed the last finished one, or else the last one."""
    ordered = sorted(runs, key=lambda run: (run.record.finished, run.record.started_at))
    return list({run.identity: run for run in ordered}.values())
