"""The HTML page, looked at by a real browser."""

import re
import subprocess
from html import unescape
from html.parser import HTMLParser

import pytest

from decent_core.report.page import published_tables, write_page
from decent_core.report.publish import publish
from tests.support import needs
from tests.support.records import make_record

ROWS = ("allreduce_adamw", "accum_adamw_aer")
BROWSER = [
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--dump-dom",
    "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr",
]  # fmt: skip
MEASURE = """<script>
const wide = [...document.querySelectorAll('body > *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1);
const broken = [...document.images].filter(i => !i.complete || i.naturalWidth === 0);
document.title = [innerWidth, document.documentElement.scrollWidth, wide.length, broken.length].join(' ');
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    records = [make_record(row, seed, 5.0 + 0.1 * seed) for row in ROWS for seed in (1, 2)]
    records.append(make_record("dadam_aer", status="diverged", metrics={}))
    reports = publish(records, folder, folder)
    write_page(folder / "report.html", reports, folder)
    return folder / "report.html"


def browse(page, tmp_path, width):
    """(what the script measured, the browser's messages of the page's console)."""
    looked_at = page.with_name(f"measured_{width}.html")
    looked_at.write_text(page.read_text().replace("</body>", f"{MEASURE}</body>"))
    command = [*BROWSER, f"--user-data-dir={tmp_path}/profile", f"--window-size={width},900", looked_at.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    title = re.search("<title>(.*?)</title>", done.stdout)
    assert title, done.stderr
    return [int(word) for word in title[1].split()], [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@needs.chromium
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_page_fits_a_phone_and_a_screen_and_the_console_is_silent(page, tmp_path, width):
    (inner, scroll, wide, broken), console = browse(page, tmp_path, width)
    assert console == []
    assert (inner, scroll, wide, broken) == (inner, inner, 0, 0)
    assert inner <= max(width, 500)


@needs.chromium
def test_a_script_error_would_be_seen(page, tmp_path):
    faulty = page.with_name("faulty.html")
    faulty.write_text(page.read_text().replace("</body>", "<script>missing()</script></body>"))
    assert any("missing is not defined" in line for line in browse(faulty, tmp_path, 800)[1])


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.sources, self.anchors, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.links += [found["href"]] if "href" in found else []
        self.sources += [found["src"]] if "src" in found else []
        self.anchors += [found["id"]] if "id" in found else []

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    tags = _Tags()
    tags.feed(page.read_text())
    return tags, re.sub(r"\s+", " ", unescape(" ".join(tags.text)))


def test_page_is_one_file_and_needs_no_network(page):
    tags, _ = parsed(page)
    assert all(source.startswith("data:image/png;base64,") for source in tags.sources)
    assert all(link == "data:," or link.startswith("#") for link in tags.links)
    assert {link[1:] for link in tags.links if link.startswith("#")} <= set(tags.anchors)
    assert "url(" not in page.read_text()


def test_page_shows_every_item_and_says_what_was_not_run(page):
    _, text = parsed(page)
    for item in published_tables():
        assert item.title in text
    assert "2 of 6 rows" in text
    assert "Not run at any scale: 7 rows." in text  # translation
    assert "0 + 1 diverged" in text
    assert "27.79" in text  # what was published stands there whether it was run or not


def test_page_depends_on_the_records_alone(page, tmp_path):
    records = [make_record(row, seed, 5.0 + 0.1 * seed) for row in ROWS for seed in (1, 2)]
    records.append(make_record("dadam_aer", status="diverged", metrics={}))
    write_page(tmp_path / "again.html", publish(records, tmp_path, tmp_path), tmp_path)
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_page_shows_runs_of_no_item_and_of_an_item_that_is_gone(tmp_path):
    records = [make_record(), make_record(experiment=None, loss=6.5), make_record(experiment="gone/row", loss=7.5)]
    reports = publish(records, tmp_path, tmp_path)
    write_page(tmp_path / "report.html", reports, tmp_path)
    tags, text = parsed(tmp_path / "report.html")
    others = text[text.rindex("Other runs") :]
    assert "other" in tags.anchors
    for shown in ("6.5000", "7.5000", "gone, here at scale tiny"):
        assert shown in others
