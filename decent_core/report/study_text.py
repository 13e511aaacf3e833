"""The table of a study as Markdown."""

from typing import Any

from decent_core.report.formats import NOTHING, markdown_table, number
from decent_core.report.intervals import Interval
from decent_core.report.notes import metric_label, origins
from decent_core.report.study_table import Table

BEST = "Each method at its own best rate; ±: half the width of the 95 % interval over seeds:"


def markdown(table: Table) -> str:
    """Title, all panels at a glance, a table for each panel, and notes."""
    header = [
        "method", "rates tried", "best rate", metric_label(table.metric), "difference",
        *([f"{table.highlight}'s lead"] if table.highlight else []), "at the baseline's rate",
        "difference there", "runs", "diverged",
    ]  # fmt: skip
    parts = [at_a_glance(table)] if len(table.panels) > 1 else [_title(table)]
    values = table.values()
    for panel in table.panels:
        rows = [_text(table, row) for row in values if row["panel"] == panel]
        parts += [_heading(table, panel), markdown_table(header, rows)]
    parts.append("\n".join(f"- {note}" for note in notes(table)))
    return "\n\n".join(parts) + "\n"


def _title(table: Table) -> str:
    return f"**{table.file.title}: {metric_label(table.metric)} of the averaged model after training**"


def at_a_glance(table: Table) -> str:
    """Title, and methods against panels."""
    rows: dict[str, list[str]] = {}
    for row in table.values():
        rows.setdefault(row["line"], [row["line"]]).append(number(row["tuned"], 2))
    counts = [
        f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
        for seeds in (_seeds(table, panel) for panel in table.panels)
    ]
    header = [", ".join(filter(None, pair)) for pair in zip(table.panels, counts, strict=True)]
    return "\n\n".join([_title(table), BEST, markdown_table(["method", *header], list(rows.values()))])


def _seeds(table: Table, panel: str) -> list[int]:
    keys = [setting.key for setting in table.file.settings if setting.label == panel]
    return sorted({run.record.seed for run in table.runs if run.setting in keys})


def _heading(table: Table, panel: str) -> str:
    seeds = _seeds(table, panel)
    ran = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    return f"{panel} ({ran}):" if panel else f"{ran.capitalize()}:"


def _text(table: Table, row: dict[str, Any]) -> list[str]:
    best = NOTHING if row["rate"] is None else f"{row['rate']:g}{' (edge)' if row['at_edge'] else ''}"
    base = row["line"] == table.baseline
    tried = ", ".join(f"{rate:g}" for rate in row["rates"])
    lead = [_signed(row["lead"]) if row["line"] != table.highlight else ""] if table.highlight else []
    return [
        row["line"], tried, best, number(row["tuned"], 3), "baseline" if base else _signed(row["difference"]),
        *lead, number(row["equal"], 3), "" if base else _signed(row["equal_difference"]), str(row["runs"]),
        str(row["missed"]),
    ]  # fmt: skip


def notes(table: Table) -> list[str]:
    """What a reader must know to read the numbers."""
    records, focus = [run.record for run in table.runs], table.highlight
    steps = sorted({record.steps for record in records})
    return [
        "±: half the width of the 95 % Student-t interval over seeds; differences, to the baseline at its own best "
        "rate, are paired by seed. Without ±: a single run.",
        *([f"{focus}'s lead: what it is ahead, each at its own best rate, paired by seed."] if focus else []),
        "The best rate has the best mean over seeds, on the validation set on which it is then reported; (edge): "
        "the smallest or largest that was tried, another may be better still."
        if table.tunes
        else "One rate a method.",
        *table.file.notes,
        f"Every method has the same steps ({' or '.join(f'{n:,}' for n in steps)}), schedule and data.",
        *origins(records),
    ]


def _signed(found: Interval | None) -> str:
    if found is None:
        return NOTHING
    return f"{found.mean:+.3f}" + ("" if found.half_width is None else f" ± {found.half_width:.3f}")
