"""Text from records and overrides breaks no table."""

import csv
import io
from dataclasses import dataclass

import pandas
from markdown_it import MarkdownIt
from rich.console import Console

from decent_core.report.formats import csv_text, latex, markdown_table, show

LABELS = ["a | b", "two\nlines", r"\input{x} $1$ ~ ^", "row [bold]", "row [0a1b2c]", "[0.9,0.98] :smile:", "*"]


@dataclass
class Made:
    title: str = "title [red]"

    def header(self) -> list[str]:
        return ["run", "loss"]

    def cells(self) -> list[list[str]]:
        return [[label, f"{number}.5"] for number, label in enumerate(LABELS)]

    def notes(self) -> list[str]:
        return ["a note\nof two lines"]


def test_markdown_cells_stay_cells():
    text = markdown_table(Made().header(), Made().cells())
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert html.count("<tr>") == len(LABELS) + 1
    assert html.count("<td") == 2 * len(LABELS)
    assert "<td>a | b</td>" in html
    assert "<td>two lines</td>" in html


def test_latex_commands_in_text_are_text():
    text = latex(Made())
    assert r"\textbackslash{}input\{x\} \$1\$ \textasciitilde{} \textasciicircum{} & 2.5" in text
    assert "\n{}[0.9,0.98] :smile: & 5.5" in text  # not an argument of the line break before it
    assert "\n{}* & 6.5" in text
    body = text.partition("\\midrule\n")[2].partition("\n\\bottomrule")[0].splitlines()
    assert len(body) == len(LABELS)
    assert text.startswith("% title [red]\n% a note of two lines\n\\begin{tabular}")


def test_terminal_prints_brackets_as_they_are():
    stream = io.StringIO()
    show(Made(), Console(file=stream, width=100))
    text = stream.getvalue()
    for label in (*LABELS[2:], "two lines", "title [red]"):
        assert label in text


def test_csv_cells_are_no_formulas():
    frame = pandas.DataFrame(
        {"run": ["=1+1", "@x", "plain"], "published": ["-", "+2", None], "loss": [-1.5, 2.0, None]}
    )
    lines = list(csv.reader(io.StringIO(csv_text(frame))))
    assert lines[1:] == [["'=1+1", "'-", "-1.5"], ["'@x", "'+2", "2.0"], ["plain", "", ""]]
