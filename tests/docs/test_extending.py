"""The page about adding one's own does what it says, from its own text, in a copy of the project."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

PAGE = (ROOT / "docs" / "extending.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy with the page's files in place; what no page touches is linked."""
    copy = tmp_path_factory.mktemp("project")
    for folder in ("decent_core", "scripts", "conf"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for linked in ("tasks", "results", "requirements.lock"):
        (copy / linked).symlink_to(ROOT / linked)
    for code in blocks("python"):
        path = code.splitlines()[0].removeprefix("# ")
        assert not (copy / path).exists(), f"{path} is the page's to add"
        (copy / path).write_text(code)
    return copy


def run(project: Path, command: str) -> str:
    # --standalone takes a free port, so that other jobs of this machine are not in the way
    command = command.replace("torchrun", "python -m torch.distributed.run --standalone")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    arguments = [sys.executable, *command.split()[1:]]
    done = subprocess.run(arguments, cwd=project, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_commands_of_the_page_run_with_what_it_adds(project):
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(commands) == 4
    shown = [run(project, command) for command in commands]
    assert "two_rings" in shown[0]
    record = json.loads((project / "runs/lazy/record.json").read_text())
    assert (record["status"], record["method"], record["topology"]) == ("ok", "lazy", "two_rings")
    assert record["config"]["method"] == {"name": "lazy", "share": 0.7}
    table = (project / "runs/lazy-report/other/regression/smoke.md").read_text()
    assert "lazy" in table
    assert (project / "runs/lazy-report/other/regression/smoke.png").stat().st_size > 1000
    assert json.loads((project / "runs/lazy-4/record.json").read_text())["engine"] == "distributed"


def test_names_and_options_of_what_the_page_adds_are_known_everywhere(project):
    shown = run(project, "python -m scripts.train --help")
    assert " lazy" in shown
    assert "two_rings" in shown
    for mistake, answer in [
        ("method=lazzy", "did you mean lazy?"),
        ("method=lazy method.shar=1", "did you mean share?"),
    ]:
        with pytest.raises(AssertionError, match=re.escape(answer)):
            run(project, f"python -m scripts.train topology=two_rings {mistake}")


def test_methods_and_facilities_that_the_page_names_exist():
    from decent_core.methods import base

    for name in re.findall(r"`(\w+)\.py`", PAGE):
        assert (ROOT / "decent_core" / "methods" / f"{name}.py").exists(), name
    for name in re.findall(r"workers\.(\w+)", PAGE):
        assert hasattr(base.Workers, name), name
    for path in re.findall(r"`(tests/[\w/]+\.py)`", PAGE):
        assert (ROOT / path).exists(), path
