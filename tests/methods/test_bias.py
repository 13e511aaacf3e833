"""The tables of biases: the committed ones are what the code makes of the committed numbers."""

import pandas
import pytest

from decent_core.config.load import load
from tasks.regression import bias_report
from tasks.regression.bias import ratio_rows
from tasks.regression.problem import draw
from tests.support import ROOT

FIGURES = ROOT / "results" / "measurements"
CONFIG = load(["experiment=l/figure2/decentlam", "scale=tiny"])
ORIGIN = "- Computed with commit "


def without_origin(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(ORIGIN)).rstrip()


@pytest.fixture(scope="module")
def made() -> str:
    table = pandas.read_csv(FIGURES / "regression_bias.csv")
    ratios = pandas.DataFrame(ratio_rows(draw(CONFIG.task, CONFIG.world_size), CONFIG.world_size))
    return bias_report.markdown(table, ratios, CONFIG.world_size, bias_report.origin())


def test_committed_tables_are_those_of_the_committed_numbers(made):
    assert without_origin(made) == without_origin((FIGURES / "regression_bias.md").read_text())


def test_tables_name_the_commit_and_torch(made, monkeypatch):
    assert made.splitlines()[-1].startswith(ORIGIN)
    monkeypatch.setattr(bias_report, "git_state", lambda: ("c0ffee" * 6, True))
    monkeypatch.setattr(bias_report, "versions", lambda: {"torch": "2.14.1"})
    assert bias_report.origin() == "Computed with commit c0ffeec0ff with uncommitted changes, torch 2.14.1."
