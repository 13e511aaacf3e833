"""How tables look: Markdown, LaTeX, CSV, and columns on a terminal. Text from records breaks none of them."""

import textwrap
from collections.abc import Sequence
from typing import Any, Protocol

import pandas
from rich.console import Console

from decent_core.records.columns import FORMULA
from decent_core.report.intervals import Interval

NOTHING = "–"
NOT_RUN = "not run"
LATEX = str.maketrans(
    {
        "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}", "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--", "β": r"$\beta$",
    }
)  # fmt: skip


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


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table whose first columns, as many as `texts`, are text and whose others are numbers."""
    lines = [header, ["---"] * texts + ["---:"] * (len(header) - texts), *rows]
    return "\n".join(f"| {' | '.join(map(_for_markdown, line))} |" for line in lines)


def latex(table: Tabular) -> str:
    """The table in LaTeX, for the package booktabs; title and notes as comments."""
    header, *lines = ([_for_latex(text) for text in line] for line in (table.header(), *table.cells()))
    body = " \\\\\n".join(" & ".join(line) for line in lines)
    comments = "\n".join(f"% {_one_line(line)}" for line in (table.title, *table.notes()))
    columns = "l" + "r" * (len(header) - 1)
    rules = f"\\toprule\n{' & '.join(header)} \\\\\n\\midrule\n{body} \\\\\n\\bottomrule"
    return f"{comments}\n\\begin{{tabular}}{{{columns}}}\n{rules}\n\\end{{tabular}}\n"


def csv_text(frame: pandas.DataFrame) -> str:
    """A CSV file; an apostrophe stands before a text that a spreadsheet would take for a formula."""
    return frame.map(_harmless).to_csv(index=False, lineterminator="\n")


def show(table: Tabular, console: Console) -> None:
    """Title, table and notes on a terminal; columns that say nothing are left out, none is ever cut."""
    cells = [[_one_line(text) for text in line] for line in table.cells() if NOT_RUN not in line]
    columns = [(name, column) for name, *column in zip(table.header(), *cells, strict=True)]
    lines = [_aligned(name, column) for name, column in columns if set(column) not in ({"1"}, {NOTHING})]
    depth = max(len(column) for column in lines) - len(cells)
    padded = [[" " * len(column[0])] * (depth + len(cells) - len(column)) + column for column in lines]
    gap = "  " if sum(len(column[0]) + 2 for column in lines) - 2 <= console.width else " "
    as_it_is: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}  # a label may have brackets
    console.print(table.title, style="bold", **as_it_is)
    for number, line in enumerate(zip(*padded, strict=True)):
        console.print(gap.join(line), style="dim" if number < depth else "", soft_wrap=True, **as_it_is)
    missing = [line[0] for line in table.cells() if NOT_RUN in line]
    for note in [*table.notes(), *([f"Not run: {', '.join(missing)}."] if missing else [])]:
        console.print(f"- {note}", **as_it_is)


def number(found: Interval | None, digits: int, unit: float = 1) -> str:
    """Mean and half width in `unit`."""
    if found is None:
        return NOTHING
    mean = f"{found.mean / unit:.{digits}f}"
    return mean if not found.half_width else f"{mean} ± {found.half_width / unit:.{digits}f}"


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _for_markdown(text: str) -> str:
    return _one_line(text).replace("|", r"\|")


def _for_latex(text: str) -> str:
    """A row that begins with a bracket or star would be an argument of the line break before it."""
    return ("{}" if text.startswith(("[", "*")) else "") + _one_line(text).translate(LATEX)


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith((*FORMULA, "\t", "\r")) else value


def _aligned(name: str, cells: Sequence[str]) -> list[str]:
    """Header, over as many lines as it needs, and cells, all of one width: the first column to the left."""
    width = max(6, *(len(text) for text in (*name.split(), *cells)))
    header = textwrap.wrap(name, width, break_on_hyphens=False)
    return [text.ljust(width) if name == "run" else text.rjust(width) for text in (*header, *cells)]
