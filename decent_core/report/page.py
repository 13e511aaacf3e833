"""The HTML page: every published item with what was run for it, studies and measurements; one file, offline."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from decent_core.config.table_file import TableFile, load_table, table_names
from decent_core.records.identity import item_of
from decent_core.records.provenance import ROOT
from decent_core.records.published import read_published
from decent_core.report.formats import NOTHING, markdown_table
from decent_core.report.notes import metric_label
from decent_core.report.tables import Report
from decent_core.system.files import write_atomically

RESULTS = ROOT / "results"
TEMPLATE = "report.html"
#: what is no table of runs, by heading: files among the committed results
MEASUREMENTS = {
    "Where gossip methods come to rest on heterogeneous data": ("regression_distance.png", "regression_bias.md"),
    "The runtime model of [P], Figure 4": ("runtime_model.png",),
    "The runtime model fitted to [P], Figure 6": ("runtime_scaling.png", "runtime_scaling.md"),
    "Step time against link speed, slept computing": ("netbench.png", "netbench.md"),
    "Step time against link speed, GPT-2 at scale tiny": ("netbench_gpt2.png", "netbench_gpt2.md"),
    "Step time and memory beside other implementations": ("bench.md",),
}


@dataclass
class Section:
    """A part of the page: text in HTML, pictures as data."""

    anchor: str
    title: str
    parts: list[Markup] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)  # (what it shows, data URI)


def write_page(path: Path, reports: Sequence[Report], figures: Path) -> None:
    """Write the page for these reports, whose curves lie in `figures`; studies and measurements are the committed."""
    items = published_tables()
    sections = [_item(item, [report for report in reports if report.item == item.name], figures) for item in items]
    names = [item.name for item in items]
    others = [report for report in reports if report.item not in names]  # of no item, or of one that was renamed
    if others:
        sections.append(_reports(Section("other", "Other runs"), others, figures))
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    page = environment.get_template(TEMPLATE).render(
        overview=_html(_overview(items, reports)), sections=sections, studies=list(_studies()),
        measurements=list(_measurements()),
    )  # fmt: skip
    write_atomically(path, page)


def published_tables() -> list[TableFile]:
    """Tables and figures of the papers that have training runs, but for comparisons of learning rates."""
    tables = [table for table in map(load_table, table_names()) if table.rows and not table.rates]
    return sorted(tables, key=lambda table: (table.name.startswith("l/"), table.baseline is None))  # step times last


def _overview(items: Sequence[TableFile], reports: Sequence[Report]) -> str:
    """A line an item: how many of its rows have a finished run, by scale."""
    scales = ("tiny", "small", "paper")
    rows = []
    for item in items:
        cells = [f"[{item.title}](#{_anchor(item.name)})"]
        for scale in scales:
            found = [report for report in reports if (report.item, report.scale) == (item.name, scale)]
            done = sum(bool(row.runs) for report in found for row in report.rows)
            cells.append(f"{done} of {len(item.rows)} rows" if done else "not run")
        rows.append(cells)
    rows += [
        [table.title, *([table.shown_by] + [NOTHING] * (len(scales) - 1))]
        for table in map(load_table, table_names())
        if table.shown_by is not None
    ]
    return markdown_table(["published item", *(f"scale {scale}" for scale in scales)], rows)


def _item(item: TableFile, reports: Sequence[Report], figures: Path) -> Section:
    section = _reports(Section(_anchor(item.name), item.title), reports, figures)
    if not reports:
        section.parts.append(_html(f"Not run at any scale: {len(item.rows)} rows.\n\n{_published(item)}"))
    return section


def _reports(section: Section, reports: Sequence[Report], figures: Path) -> Section:
    for report in reports:
        section.parts.append(_html(report.markdown()))
        section.pictures.append((f"Curves of {report.title}", _data(figures / f"{report.name}.png")))
    return section


def _published(item: TableFile) -> str:
    """What was published for the item's rows."""
    published = read_published(RESULTS / "published.csv")
    found = [entry for entry in published if item_of(entry.experiment) == item.name]
    if not found:
        return "Its published values could not be established."
    rows = [
        [entry.experiment.rpartition("/")[2], metric_label(entry.metric),
         NOTHING if entry.value is None else f"{entry.value:g}", entry.note]
        for entry in found
    ]  # fmt: skip
    return markdown_table(["row", "metric", "published", "note"], rows)


def _studies() -> Iterator[Section]:
    for table in [table for table in map(load_table, table_names()) if table.compares_rates]:
        for path in sorted((RESULTS / table.name).glob("*.md")):
            title = f"{table.title}, scale {path.stem}"
            section = Section(_anchor(f"{table.name}/{path.stem}"), title, [_html(path.read_text())])
            section.pictures.append((title, _data(path.with_suffix(".png"))))
            yield section


def _measurements() -> Iterator[Section]:
    for title, names in MEASUREMENTS.items():
        section = Section(Path(names[0]).stem, title)
        for path in (RESULTS / "measurements" / name for name in names):
            if path.suffix == ".md" and path.exists():
                section.parts.append(_html(path.read_text()))
            elif path.exists():
                section.pictures.append((title, _data(path)))
        if section.parts or section.pictures:
            yield section


def _html(markdown: str) -> Markup:
    """Tables in a frame of their own, which scrolls where the screen is too narrow."""
    made = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    return Markup(made.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>"))


def _anchor(name: str) -> str:
    return name.replace("/", "-")


def _data(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
