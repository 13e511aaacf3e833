"""Tables, curves and one HTML page from record files alone: one table an item of a paper and scale.

python -m scripts.report                                       # results/records -> tables, figures, page and README
python -m scripts.report records=runs/mine tables=out figures=out readme=null html=out/report.html
"""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.config.command_line import options, run_main
from decent_core.records.record import read_all
from decent_core.report.formats import show
from decent_core.report.page import write_page
from decent_core.report.publish import publish, update_readme


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


if __name__ == "__main__":
    run_main(main)
