"""Writes what is shown of runs: tables, figures, one page, and the README's parts."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.config.table_file import load_table, table_names
from decent_core.records.lines import Run
from decent_core.records.provenance import ROOT
from decent_core.records.published import read_published
from decent_core.records.record import Record
from decent_core.report.compare import compare
from decent_core.report.figures import draw_curves
from decent_core.report.formats import csv_text, latex, show
from decent_core.report.learning_rates import RateComparison
from decent_core.report.learning_rates_figure import draw
from decent_core.report.learning_rates_text import at_a_glance, markdown
from decent_core.report.make_tables import make_reports
from decent_core.report.notes import metric_label
from decent_core.report.page import write_page
from decent_core.report.readme import fill
from decent_core.report.single_runs import latest, sort_out
from decent_core.report.table_frame import frame
from decent_core.report.tables import Report
from decent_core.system.files import write_atomically


@dataclass(frozen=True)
class Places:
    """Where results are written; None: nowhere."""

    tables: Path
    figures: Path
    readme: Path | None
    html: Path | None

    @staticmethod
    def of(folder: Path, readme: Path | None = None) -> "Places":
        """All in one folder."""
        return Places(folder, folder, readme, folder / "report.html")


def publish_all(tables: Mapping[str, Sequence[Run]], single: Sequence[Record], to: Places, console: Console) -> None:
    """Write and show all tables: those that compare learning rates, and all others with the records of single runs."""
    compared = {
        name: runs for name, runs in tables.items() if name in table_names() and load_table(name).compares_rates
    }
    others = [run.record for name, runs in tables.items() if name not in compared for run in runs]
    placed, single = sort_out(single)
    compared |= {name: latest([*compared.get(name, []), *runs]) for name, runs in placed.items()}
    for name, runs in compared.items():
        for scale in sorted({run.record.scale for run in runs}):
            table = RateComparison(load_table(name), [run for run in runs if run.record.scale == scale])
            publish_comparison(table, to)
            console.print(markdown(table), markup=False, emoji=False, highlight=False, soft_wrap=True)
            console.print(f"Written: {to.tables / table.name}.md, .csv and .png", soft_wrap=True, highlight=False)
    reports = publish([*others, *single], to.tables, to.figures)
    for report in reports:
        show(report, console)
        console.print(f"Written: {to.tables / report.name}.md, .tex, .csv and .png", soft_wrap=True, highlight=False)
    if to.readme is not None:
        update_readme(to.readme, reports, to.figures)
    if to.html is not None and reports:
        write_page(to.html, reports, to.figures)
        console.print(f"Written: {to.html}, all of it in one page", soft_wrap=True, highlight=False)


def publish(records: Sequence[Record], tables: Path, figures: Path) -> list[Report]:
    """Write `<table>/<scale>.md`, `.tex`, `.csv` and `.png`; returns what was written."""
    reports = make_reports(compare(records), read_published(ROOT / "results" / "published.csv"))
    for report in reports:
        write_atomically(tables / f"{report.name}.md", report.markdown())
        write_atomically(tables / f"{report.name}.tex", latex(report))
        write_atomically(tables / f"{report.name}.csv", csv_text(frame(report)))
        draw_curves(report.rows, figures / f"{report.name}.png", report.title, metric_label(report.metric))
    return reports


def publish_comparison(table: RateComparison, to: Places) -> None:
    """Write a table that compares learning rates: `<table>/<scale>.md`, `.csv` and `.png`, and the README's part."""
    write_atomically(to.tables / f"{table.name}.md", markdown(table))
    write_atomically(to.tables / f"{table.name}.csv", csv_text(table.frame()))
    draw(table, to.figures / f"{table.name}.png")
    if to.readme is not None:
        fill(to.readme, {f"results:{table.name}": at_a_glance(table)})


def update_readme(path: Path, reports: Sequence[Report], figures: Path) -> None:
    """Put picture and table of each report between its comments, where the text has them."""
    images = {report.name: os.path.relpath(figures / f"{report.name}.png", path.parent) for report in reports}
    parts = {
        f"results:{report.name}": f"![Curves of {report.title}]({images[report.name]})\n\n{report.markdown()}"
        for report in reports
    }
    fill(path, parts)
