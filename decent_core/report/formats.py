"""How tables look: Markdown, LaTeX, and columns on a terminal."""

import textwrap
from collections.abc import Sequence
from typing import Protocol

from rich.console import Console

from decent_core.report.intervals import Interval

NOTHING = "–"
NOT_RUN = "not run"
LATEX = {"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "±": r"$\pm$", "–": "--", "β": r"$\beta$"}


class Tabular(Protocol):
    """What has a title, a header, cells and notes; the first column is text, the others are numbers."""

    @property
    def title(self) -> str:
        """One line."""

    def header(self) -> list[str]:
        """Column names."""

    def cells(self) -> list[list[str]]:
        """The body as text."""

    def notes(self) -> list[str]:
        """What a reader must know to read the numbers."""


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def latex(table: Tabular) -> str:
    """The table in LaTeX, for the package booktabs; title and notes as comments."""
    header, *lines = ([_for_latex(text) for text in line] for line in (table.header(), *table.cells()))
    body = " \\\\\n".join(" & ".join(line) for line in lines)
    comments = "\n".join(f"% {line}" for line in (table.title, *table.notes()))
    columns = "l" + "r" * (len(header) - 1)
    rules = f"\\toprule\n{' & '.join(header)} \\\\\n\\midrule\n{body} \\\\\n\\bottomrule"
    return f"{comments}\n\\begin{{tabular}}{{{columns}}}\n{rules}\n\\end{{tabular}}\n"


def show(table: Tabular, console: Console) -> None:
    """Title, table and notes on a terminal; columns that say nothing are left out, none is ever cut."""
    cells = [line for line in table.cells() if NOT_RUN not in line]
    columns = [(name, column) for name, *column in zip(table.header(), *cells, strict=True)]
    lines = [_aligned(name, column) for name, column in columns if set(column) not in ({"1"}, {NOTHING})]
    depth = max(len(column) for column in lines) - len(cells)
    padded = [[" " * len(column[0])] * (depth + len(cells) - len(column)) + column for column in lines]
    gap = "  " if sum(len(column[0]) + 2 for column in lines) - 2 <= console.width else " "
    console.print(table.title, style="bold", highlight=False)
    for number, line in enumerate(zip(*padded, strict=True)):
        console.print(gap.join(line), style="dim" if number < depth else "", soft_wrap=True, highlight=False)
    missing = [line[0] for line in table.cells() if NOT_RUN in line]
    for note in [*table.notes(), *([f"Not run: {', '.join(missing)}."] if missing else [])]:
        console.print(f"- {note}", highlight=False, markup=False)


def number(found: Interval | None, digits: int, unit: float = 1) -> str:
    """Mean and half width in `unit`."""
    if found is None:
        return NOTHING
    mean = f"{found.mean / unit:.{digits}f}"
    return mean if not found.half_width else f"{mean} ± {found.half_width / unit:.{digits}f}"


def _for_latex(text: str) -> str:
    for plain, tex in LATEX.items():
        text = text.replace(plain, tex)
    return text


def _aligned(name: str, cells: Sequence[str]) -> list[str]:
    """Header, over as many lines as it needs, and cells, all of one width: the first column to the left."""
    width = max(6, *(len(text) for text in (*name.split(), *cells)))
    header = textwrap.wrap(name, width, break_on_hyphens=False)
    return [text.ljust(width) if name == "run" else text.rjust(width) for text in (*header, *cells)]
