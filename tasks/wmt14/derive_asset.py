"""Derives the parallel text of LibreOffice's help from Debian packages (network, apt-get and dpkg-deb needed)."""

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from tasks import assets

VERSION = "4:7.4.7-1+deb12u14"
SHA256 = {
    "en-US": "8faa840285734d6cfe1ed25537b48f07e74bd6412e3917bf8e5f8a653f7b3712",
    "de": "00490b63c509ac96f7f212d6a6e40452d3e0d1f97ccf4b824dd5ec4c01e8277f",
    "fr": "c796530d3e95af1ea4d054076682efc8aad2b569ae9513f3d4a776b2df3fd206",
}
PAIRS = 40_000
LONGEST_LETTERS = 400
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-ZÀ-ÖØ-Þ«„\"(])")
LICENCE = (
    "Mozilla Public License 2.0 (https://www.mozilla.org/MPL/2.0/). Copyright 2000, 2010 Oracle and/or its affiliates; "
    "2000, 2010 LibreOffice contributors and/or their affiliates. Parts: Apache License 2.0. The source form is the "
    "LibreOffice help of the version named; sentences were cut out of it, nothing else was changed."
)


def help_pairs(target: str) -> Path:
    """English and `target` (de or fr): a line a sentence pair, `help file TAB English TAB target`, ordered by file."""
    english, other = (_paragraphs(language) for language in ("en-US", target))
    pairs: dict[tuple[str, str], str] = {}
    for (file, paragraph), text in english.items():
        for pair in _aligned(text, other.get((file, paragraph), "")):
            pairs.setdefault(pair, file)  # help files include one another; a pair belongs to the first
    chosen = sorted(pairs, key=lambda pair: hashlib.sha256("\t".join(pair).encode()).digest())[:PAIRS]
    if len(chosen) < PAIRS:
        raise ValueError(f"The help yields {len(chosen)} pairs for {target}, not {PAIRS}.")
    lines = sorted(f"{pairs[pair]}\t{pair[0]}\t{pair[1]}\n" for pair in chosen)
    return assets.write(
        f"help_en_{target}",
        "".join(lines).encode(),
        source=", ".join(f"Debian {_package(name)} {VERSION}, sha256 {SHA256[name]}" for name in ("en-US", target)),
        content_is=f"{PAIRS} sentence pairs of the LibreOffice help, aligned by paragraph: file, English, {target}",
        licence=LICENCE,
    )


def _package(language: str) -> str:
    return f"libreoffice-help-{language.lower()}"


def _paragraphs(language: str) -> dict[tuple[str, str], str]:
    """(help file, paragraph id) -> text, in order of files."""
    found: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "-q", "download", f"{_package(language)}={VERSION}"], check=True, cwd=folder)
        (package,) = Path(folder).glob("*.deb")
        if hashlib.sha256(package.read_bytes()).hexdigest() != SHA256[language]:
            raise ValueError(f"{package.name} is not the package that the pairs were derived from: its sha256 differs.")
        subprocess.run(["dpkg-deb", "-x", str(package), folder], check=True)
        root = Path(folder) / "usr/share/libreoffice/help" / language
        for path in sorted(root.rglob("*.html")):
            page = _Page()
            page.feed(path.read_text(encoding="utf-8"))
            file = path.relative_to(root).with_suffix("").as_posix()
            found.update({(file, name): text for name, text in page.paragraphs.items()})
    return found


class _Page(HTMLParser):
    """Collects the text of every paragraph and heading that has an id."""

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: dict[str, str] = {}
        self._open = ""  # id of the paragraph that is being read
        self._tag = ""
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = dict(attrs).get("id") or ""
        if re.fullmatch(r"p|h[1-6]", tag) and name.startswith(("par_id", "hd_id")):
            self._open, self._tag, self._text = name, tag, []
        elif tag == "br":
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag == self._tag:
            self.paragraphs.setdefault(self._open, " ".join("".join(self._text).split()))
            self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self._text.append(data)


def _aligned(english: str, other: str) -> Iterator[tuple[str, str]]:
    """Sentence pairs of two paragraphs if both have as many sentences, else the paragraphs if they are short."""
    left, right = (SENTENCE_END.split(text) for text in (english, other))
    pairs = zip(left, right, strict=True) if len(left) == len(right) else [(english, other)]
    for pair in pairs:
        lengths = [len(text) for text in pair]
        translated = pair[0] != pair[1] and all(re.search(r"[^\W\d_]{2}", text) for text in pair)
        if translated and max(lengths) <= LONGEST_LETTERS and max(lengths) <= 3 * min(lengths) + 10:
            yield pair
