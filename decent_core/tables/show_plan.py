"""Shows what the runs of tables cost, and writes the jobs file: one line of overrides a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from decent_core.records.archive import read_all
from decent_core.records.identity import item_of
from decent_core.records.provenance import ROOT
from decent_core.system.files import write_atomically
from decent_core.tables.cost_table import RowCost, list_costs
from decent_core.tables.jobs import jobs_text
from decent_core.tables.plan import plan
from decent_core.tables.step_times import Sources


@dataclass(frozen=True)
class PlanOptions:
    """What is planned, and what is known about it."""

    table: str = "*"
    scale: str = "paper"
    seeds: int = 1  # seeds 1 to this
    out: str | None = None  # the jobs file: a line is what scripts.train gets under torchrun
    runs: str = "runs/slurm"  # folder of the runs
    overrides: list[str] = field(default_factory=list)  # for every run
    step_ms: float | None = None
    device: str | None = None  # part of a device's name: only step times on it
    records: str = "results"  # finished runs, for their step times; those under `runs` count too

    def __post_init__(self) -> None:
        if self.step_ms is not None and self.step_ms <= 0:
            raise ValueError(f"step_ms={self.step_ms}: must be above 0")


def show_plan(chosen: PlanOptions) -> int:
    """Show the plan, and write the jobs file if one is wanted.

    Step times are given (step_ms), measured in the records of runs with the same steps, or published; where nobody has
    measured, none is shown.
    """
    found = plan(chosen.table, chosen.scale, chosen.seeds, Path(chosen.runs), chosen.overrides, launched=True)
    folders = [path for path in (Path(chosen.records), Path(chosen.runs)) if path.exists()]
    records = [record for path in folders for record in read_all(path)]
    sources = Sources(chosen.step_ms, records, ROOT / "results" / "published.csv", chosen.device)
    lines = list_costs(found.cells, sources)
    console = Console(highlight=False)
    if lines:
        show(lines, console)
    show_left_out(found.left_out, console)
    to_do = [run for run in found.runs if not run.finished()]  # in the order in which submit numbers them
    if chosen.out and to_do:
        write_atomically(Path(chosen.out), jobs_text(to_do))
        console.print(f"Written: {chosen.out}, {len(to_do)} runs", soft_wrap=True)
    elif lines and not to_do:
        console.print("All runs are finished; there is nothing to do.")
    return 0


def show(lines: Sequence[RowCost], console: Console) -> None:
    """The table, its sources and what it does not count."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("row", no_wrap=True)
    for name in ("runs", "done", "workers", "steps", "ms/step", "GPU-hours", "GB sent"):
        table.add_column(name, justify="right")
    for item, group in groupby(lines, lambda line: item_of(line.experiment)):
        table.add_row(item, style="bold")
        for line in group:
            table.add_row(f"  {_row(line)}", *_cells(line))
    runs, finished = sum(len(line.to_do) for line in lines), sum(line.finished for line in lines)
    table.add_row("all", str(runs), str(finished), "", "", "", _total([line.gpu_hours for line in lines]), "")
    console.print(table)
    console.print("GPU-hours: of the runs that are left, training steps alone. GB sent: by each worker in one run.")
    sources = dict.fromkeys(line.time.source for line in lines)
    for source in sources:
        rows = dict.fromkeys(_row(line) for line in lines if line.time.source == source)
        where = f" ({', '.join(rows)})" if len(sources) > 1 else ""
        console.print(f"ms/step{where}: {source}", soft_wrap=True)


def show_left_out(left_out: Mapping[str, str], console: Console) -> None:
    """Which rows have no run, by reason."""
    for reason in dict.fromkeys(left_out.values()):
        console.print(f"Left out: {reason}", soft_wrap=True, markup=False)
        names = [name for name, other in left_out.items() if other == reason]
        for item, rows in groupby(names, item_of):
            console.print(f"  {item}: {', '.join(name.rpartition('/')[2] for name in rows)}", soft_wrap=True)


def _row(line: RowCost) -> str:
    return line.experiment.rpartition("/")[2]


def _cells(line: RowCost) -> list[str]:
    steps, workers = line.config.trainer.steps, line.config.world_size
    counts = [str(len(line.to_do)), str(line.finished), str(workers), f"{steps:,}"]
    return [*counts, _number(line.time.ms), _number(line.gpu_hours), _number(line.gigabytes)]


def _total(values: Sequence[float | None]) -> str:
    """A sum of which some terms may not be known."""
    known = [value for value in values if value is not None]
    return _number(sum(known)) if len(known) == len(values) else f">= {_number(sum(known))}" if known else "?"


def _number(value: float | None) -> str:
    """Three digits that count; `?` for what is not known."""
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
