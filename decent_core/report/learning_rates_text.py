"""A table that compares learning rates, as Markdown."""

from typing import Any

from decent_core.report.formats import NOTHING, markdown_table, number
from decent_core.report.intervals import Interval
from decent_core.report.learning_rates import RateComparison
from decent_core.report.notes import metric_label, origins

BEST = "Each method at its own best rate; ±: half the width of the 95 % interval over seeds:"


def markdown(table: RateComparison) -> str:
    """Title, all settings at a glance, a table for each, and notes."""
    header = [
        "method", "rates tried", "best rate", metric_label(table.metric), "difference",
        *([f"{table.highlight}'s lead"] if table.highlight else []), "at the baseline's rate",
        "difference there", "runs", "diverged",
    ]  # fmt: skip
    parts = [at_a_glance(table)] if len(table.settings) > 1 else [_title(table)]
    values = table.values()
    for setting in table.settings:
        rows = [_text(table, row) for row in values if row["setting"] == setting]
        parts += [_heading(table, setting), markdown_table(header, rows)]
    parts.append("\n".join(f"- {note}" for note in notes(table)))
    return "\n\n".join(parts) + "\n"


def _title(table: RateComparison) -> str:
    return f"**{table.file.title}: {metric_label(table.metric)} of the averaged model after training**"


def at_a_glance(table: RateComparison) -> str:
    """Title, and methods against settings."""
    rows: dict[str, list[str]] = {}
    for row in table.values():
        rows.setdefault(row["row"], [row["row"]]).append(number(row["tuned"], 2))
    counts = [
        f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
        for seeds in (_seeds(table, setting) for setting in table.settings)
    ]
    header = [", ".join(filter(None, pair)) for pair in zip(table.settings, counts, strict=True)]
    return "\n\n".join([_title(table), BEST, markdown_table(["method", *header], list(rows.values()))])


def _seeds(table: RateComparison, label: str) -> list[int]:
    keys = [setting.key for setting in table.file.settings if setting.label == label]
    return sorted({run.record.seed for run in table.runs if run.setting in keys})


def _heading(table: RateComparison, setting: str) -> str:
    seeds = _seeds(table, setting)
    ran = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    return f"{setting} ({ran}):" if setting else f"{ran.capitalize()}:"


def _text(table: RateComparison, row: dict[str, Any]) -> list[str]:
    best = NOTHING if row["rate"] is None else f"{row['rate']:g}{' (edge)' if row['at_edge'] else ''}"
    base = row["row"] == table.baseline
    tried = ", ".join(f"{rate:g}" for rate in row["rates"])
    lead = [_signed(row["lead"]) if row["row"] != table.highlight else ""] if table.highlight else []
    return [
        row["row"], tried, best, number(row["tuned"], 3), "baseline" if base else _signed(row["difference"]),
        *lead, number(row["equal"], 3), "" if base else _signed(row["equal_difference"]), str(row["runs"]),
        str(row["missed"]),
    ]  # fmt: skip


def notes(table: RateComparison) -> list[str]:
    """What a reader must know to read the numbers."""
    records, leader = [run.record for run in table.runs], table.highlight
    steps = sorted({record.steps for record in records})
    return [
        "±: half the width of the 95 % Student-t interval over seeds; differences, to the baseline at its own best "
        "rate, are paired by seed. Without ±: a single run.",
        *([f"{leader}'s lead: what it is ahead, each at its own best rate, paired by seed."] if leader else []),
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
