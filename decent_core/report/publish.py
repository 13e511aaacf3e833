"""Writes what is shown of runs: tables, figures, one page, and the README's parts."""

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from decent_core.config.command_line import ROOT
from decent_core.records.published import read_published
from decent_core.records.record import Record
from decent_core.report.compare import compare
from decent_core.report.figures import draw_curves
from decent_core.report.formats import latex, show
from decent_core.report.notes import metric_label
from decent_core.report.page import write_page
from decent_core.report.readme import fill
from decent_core.report.study_figure import draw
from decent_core.report.study_table import Table
from decent_core.report.study_text import at_a_glance, markdown
from decent_core.report.tables import Report, make_reports
from decent_core.system.files import write_atomically


def publish(records: Sequence[Record], tables: Path, figures: Path) -> list[Report]:
    """Write `<table>-<scale>.md`, `.tex`, `.csv` and `.png`; returns what was written."""
    reports = make_reports(compare(records), read_published(ROOT / "results" / "published.csv"))
    for report in reports:
        write_atomically(tables / f"{report.name}.md", report.markdown())
        write_atomically(tables / f"{report.name}.tex", latex(report))
        write_atomically(tables / f"{report.name}.csv", report.frame().to_csv(index=False, lineterminator="\n"))
        draw_curves(report.rows, figures / f"{report.name}.png", report.title, metric_label(report.metric))
    return reports


def show_all(records: Sequence[Record], results: Path, console: Console) -> None:
    """Tables and curves of all records in a folder, on the terminal too, and all of it in one page."""
    reports = publish(records, results, results)
    for report in reports:
        show(report, console)
        console.print(f"Written: {results / report.name}.md, .tex, .csv and .png", soft_wrap=True, highlight=False)
    if reports:
        write_page(results / "report.html", reports, results)
        console.print(f"Written: {results}/report.html, all of it in one page", soft_wrap=True, highlight=False)


def update_readme(path: Path, reports: Sequence[Report], figures: Path) -> None:
    """Put picture and table of each report between its comments, where the text has them."""
    images = {report.name: os.path.relpath(figures / f"{report.name}.png", path.parent) for report in reports}
    parts = {
        f"results:{report.name}": f"![Curves of {report.title}]({images[report.name]})\n\n{report.markdown()}"
        for report in reports
    }
    fill(path, parts)


def publish_comparison(table: Table, folder: Path, readme: Path | None, console: Console) -> None:
    """Write and show a table that compares learning rates: <table>/<scale>.md, .csv and .png, and `readme`'s part."""
    path = folder / table.file.name / table.scale
    write_atomically(path.with_suffix(".md"), markdown(table))
    write_atomically(path.with_suffix(".csv"), table.frame().to_csv(index=False, lineterminator="\n"))
    draw(table, path.with_suffix(".png"))
    if readme is not None:
        fill(readme, {f"study:{table.file.name.rpartition('/')[2]}": at_a_glance(table)})
    console.print(markdown(table), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Written: {path}.md, .csv and .png", soft_wrap=True, highlight=False)
