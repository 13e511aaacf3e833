"""Tables, curves and one HTML page from records alone: one table for each of conf/table and scale.

python -m scripts.report                                       # runs in results -> tables, figures, page and README
python -m scripts.report records=runs/mine tables=out figures=out readme=null html=out/report.html
"""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decent_core.config.command_line import options, run_main
from decent_core.records.archive import read_single, read_tables
from decent_core.report.publish import Places, publish_all


@dataclass(frozen=True)
class Options:
    """Where records are read and results are written; relative paths count from the working directory."""

    records: str = "results"  # a folder of packed tables as results is, or of record.json as runs is
    tables: str = "results"
    figures: str = "results"
    readme: str | None = "README.md"
    html: str | None = "results/report.html"


def main(arguments: list[str]) -> int:
    """Write and show everything that the records hold."""
    chosen = options(Options, arguments, __doc__ or "")
    tables, single = read_tables(Path(chosen.records)), read_single(Path(chosen.records))
    if not tables and not single:
        raise ValueError(f"records={chosen.records}: no record there; make reproduce, or a training run, writes some")
    readme, html = (None if path is None else Path(path) for path in (chosen.readme, chosen.html))
    publish_all(tables, single, Places(Path(chosen.tables), Path(chosen.figures), readme, html), Console())
    return 0


if __name__ == "__main__":
    run_main(main)
