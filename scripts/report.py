"""Tables, curves and one HTML page from record files alone: one table an item of a paper and scale.

python -m scripts.report                                       # results/records -> tables, figures, page and README
python -m scripts.report records=runs/mine tables=out figures=out readme=null html=out/report.html
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.config.command_line import ROOT, options, run_main
from decent_core.records.published import read_published
from decent_core.records.record import Record, read_all
from decent_core.report.compare import compare
from decent_core.report.figures import draw_curves
from decent_core.report.formats import latex, show
from decent_core.report.notes import metric_label
from decent_core.report.page import write_page
from decent_core.report.readme import fill
from decent_core.report.tables import Report, make_reports
from decent_core.system.files import write_atomically


@dataclass(frozen=True)
class Options:
    """Where records are read and results are written; relative paths count from the working directory."""

    records: str = "results/records"
    tables: str = "results/tables"
    figures: str = "results/figures"
    readme: str | None = "README.md"
    html: str | None = "results/report.html"


def main(arguments: list[str]) -> int:
    """Write and show everything that the records hold."""
    chosen = options(Options, arguments, __doc__ or "")
    found = read_all(Path(chosen.records))
    if not found:
        raise ValueError(f"records={chosen.records}: no record there; make reproduce, or a training run, writes some")
    reports = publish(found, Path(chosen.tables), Path(chosen.figures))
    console = Console()
    for report in reports:
        show(report, console)
    if chosen.readme is not None:
        update_readme(Path(chosen.readme), reports, Path(chosen.figures))
    if chosen.html is not None:
        write_page(Path(chosen.html), reports, Path(chosen.figures))
        console.print(f"Written: {chosen.html}", soft_wrap=True, highlight=False)
    return 0


def publish(records: Sequence[Record], tables: Path, figures: Path) -> list[Report]:
    """Write `<item>-<scale>.md`, `.tex`, `.csv` and `.png`; returns what was written."""
    reports = make_reports(compare(records), read_published(ROOT / "results" / "published.csv"))
    for report in reports:
        write_atomically(tables / f"{report.name}.md", report.markdown())
        write_atomically(tables / f"{report.name}.tex", latex(report))
        write_atomically(tables / f"{report.name}.csv", report.frame().to_csv(index=False, lineterminator="\n"))
        draw_curves(report.rows, figures / f"{report.name}.png", report.title, metric_label(report.metric))
    return reports


def update_readme(path: Path, reports: Sequence[Report], figures: Path) -> None:
    """Put picture and table of each report between its comments, where the text has them."""
    images = {report.name: os.path.relpath(figures / f"{report.name}.png", path.parent) for report in reports}
    parts = {
        f"results:{report.name}": f"![Curves of {report.title}]({images[report.name]})\n\n{report.markdown()}"
        for report in reports
    }
    fill(path, parts)


if __name__ == "__main__":
    run_main(main)
