"""Which tables rows of runs make, and what their files are called."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from decent_core.config.table_file import load_table, table_names
from decent_core.records.published import Published
from decent_core.report import compare
from decent_core.report.compare import Row
from decent_core.report.tables import Report


def make_reports(rows: Sequence[Row], published: Sequence[Published]) -> list[Report]:
    """A report for each item, or else task, and scale among rows in the order of `compare`."""
    groups = groupby(rows, key=lambda row: (row.item, row.first.task, row.first.scale))
    found = {key: list(group) for key, group in groups}
    names = _names(list(found))
    return [
        Report(item, task, scale, own, compare.baseline(own), published, _without(own, _rows_of(item)), name)
        for name, ((item, task, scale), own) in zip(names, found.items(), strict=True)
    ]


def _names(keys: Sequence[tuple[str, str, str]]) -> list[str]:
    """Names of files for (item, task, scale), such as p/gpt2/tiny; other runs' are other/<task>/<scale>.

    An item of several tasks names these too. Raises ValueError where two reports would write the same files, and for
    an item that names no folder.
    """
    spread = {pair for pair, count in Counter((item, scale) for item, _, scale in keys).items() if count > 1}
    found: dict[str, str] = {}
    for item, task, scale in keys:
        own = item + (f"/{task}" if (item, scale) in spread else "") if item else f"other/{task}"
        name, what = f"{own}/{scale}", item or f"task={task}"
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise ValueError(f"experiment={item}/...: no name for a folder of results")
        if name in found:
            raise ValueError(f"{found[name]}, {what}: both reports would be named {name}; report them one by one")
        found[name] = what
    return list(found)


def _rows_of(item: str) -> list[str]:
    """All rows of a table, such as `p/gpt2/dadam_aer`; none for what is no table."""
    return sorted(f"{item}/{row.key}" for row in load_table(item).rows) if item in table_names() else []


def _without(rows: Sequence[Row], experiments: Sequence[str]) -> list[str]:
    there = {row.first.experiment for row in rows}
    return [name for name in experiments if name not in there]
