"""What is imported is declared in pyproject.toml, each dependency once and with its reason."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.support import ROOT

OWN = {"decent_core", "tasks", "scripts", "tests"}
#: imported where it is there; make setup-fairseq and make setup-dali install these, not the lock
BUILT_APART = {"fairseq", "nvidia"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = {re.split(r"[<>=!~\[ ]", text)[0].lower() for text in PROJECT["dependencies"]}
EXTRAS = {
    re.split(r"[<>=!~\[ ]", text)[0].lower() for texts in PROJECT["optional-dependencies"].values() for text in texts
}


def imported() -> dict[str, str]:
    """Every top-level module that is imported anywhere, with a file that does."""
    found = {}
    for folder in sorted(OWN):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    names = [node.module]
                found |= {name.partition(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names | OWN | BUILT_APART}


@pytest.mark.parametrize(("module", "path"), sorted(imported().items()))
def test_what_is_imported_is_declared(module, path):
    distributions = {name.lower() for name in packages_distributions().get(module, [module])}
    assert distributions & (NAMES | EXTRAS), f"{path} imports {module}: declare one of {sorted(distributions)}"


def test_every_dependency_has_its_reason():
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    declared = [line for line in lines if re.match(r'    "[\w-]+(\[\w+\])?[<>=!~]', line)]
    assert len(declared) == len(PROJECT["dependencies"]) + sum(map(len, PROJECT["optional-dependencies"].values()))
    assert [line for line in declared if "#" not in line] == []


def test_the_lock_holds_every_dependency():
    locked = {
        line.partition("==")[0].lower()
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if "==" in line
    }
    assert (NAMES | EXTRAS) - locked == set()
