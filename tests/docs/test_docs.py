"""Every command that the README and the pages show is one that exists, with keys that it knows."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from decent_core.config.load import load
from tests.support import ROOT

# docs/extending.md adds what its commands use; a test of its own runs them
PAGES = [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "extending.md")]
FENCED = re.compile(r"^```(?:sh|bash|)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^ {4}.*\S.*\n)+", re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    text = page.read_text()
    blocks = [*FENCED.findall(text), *(re.sub("^ {4}", "", b, flags=re.M) for b in INDENTED.findall(text))]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if re.match(r"\S*(python|torchrun|make) ", line)]


CASES = [(page, words) for page in PAGES for words in commands(page)]


@pytest.mark.parametrize(("page", "words"), CASES, ids=lambda value: getattr(value, "name", None) or " ".join(value))
def test_command_of_a_page_exists_with_its_keys(page, words, capsys):
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        makefile = (ROOT / "Makefile").read_text()
        assert targets
        assert all(re.search(rf"^{re.escape(target)}:", makefile, flags=re.M) for target in targets)
        return
    while "-m" in words and not words[words.index("-m") + 1].startswith("scripts."):
        words = words[words.index("-m") + 2 :]
    if "-m" not in words:
        assert words[1] == "-c"
        return
    module, rest = words[words.index("-m") + 1], words[words.index("-m") + 2 :]
    if "--" in rest:  # a command within a command
        inner = rest[rest.index("--") + 1 :]
        rest = rest[: rest.index("--")]
        test_command_of_a_page_exists_with_its_keys(page, inner, capsys)
    verb = [word for word in rest[:1] if "=" not in word and not word.startswith("-")]
    keys = [word for word in rest if word not in (*verb, "--help")]
    if module in ("scripts.train", "scripts.prepare") and not verb:
        if "--help" not in rest:
            load([word.replace("PATH", "x").replace("NAME", "x") for word in keys])
        return
    door = importlib.import_module(module)
    with pytest.raises(SystemExit):
        door.main([*verb, "--help"])
    own = set(re.findall(r"^  (\w+)=", capsys.readouterr().out, flags=re.MULTILINE))
    if (module, verb) == ("scripts.bench", ["profile"]):  # takes a training run's overrides beside its own
        load(["method=awc", "engine=distributed", *(word for word in keys if word.partition("=")[0] not in own)])
        return
    assert {word.partition("=")[0] for word in keys} <= own


def test_every_target_that_make_knows_has_a_rule_and_a_line_of_help():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)$", makefile, flags=re.M)[1].replace("\\", "").split()
    assert set(phony) == set(re.findall(r"^([a-z-]+):.*## ", makefile, flags=re.M))


def test_pages_show_commands_at_all():
    assert len(CASES) > 15
