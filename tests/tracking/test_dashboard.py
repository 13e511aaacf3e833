"""The W&B dashboard is built without a server, and shows what runs really log; its page gives commands that work."""

import json
import re
import subprocess
import sys

import pytest

from decent_core.config.load import load
from decent_core.records.archive import read_all
from scripts.dashboard import main
from tests.support import ROOT, commands
from tests.support.offline_runs import history, offline_runs, summary
from tests.support.runs import train

PAGE = (ROOT / "docs" / "dashboards.md").read_text()


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    """What would be sent for the workspace and the report."""
    path = tmp_path_factory.mktemp("dashboard") / "specs.json"
    main(["entity=us", "project=gossip", f"out={path}"])
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Names in the history and in the summary of real runs: an offline one, and the committed records of all tasks."""
    folder = tmp_path_factory.mktemp("run")
    train("task=gpt2", "method=awc", "topology=ring", "scale=smoke", "logger=wandb", f"out={folder}")
    (path,) = offline_runs(folder)
    in_history = {name for row in history(path) for name in row}
    in_summary = {*summary(path), *json.loads((folder / "record.json").read_text())}
    for record in read_all(ROOT / "results"):
        in_history |= {name for point in record.curve for name in point["values"]}
        in_summary |= record.metrics.keys()
    return in_history, in_summary


def found(spec, key: str) -> list:
    """All values under a key, however deep."""
    if isinstance(spec, list):
        return [value for part in spec for value in found(part, key)]
    if not isinstance(spec, dict):
        return []
    here = [spec[key]] if key in spec else []
    return here + [value for part in spec.values() for value in found(part, key)]


def panels(spec) -> list[dict]:
    return [panel for group in found(spec, "panels") if isinstance(group, list) for panel in group]


@pytest.mark.parametrize("part", ["workspace", "report"])
def test_every_metric_of_a_panel_is_logged_by_a_real_run(specs, logged, part):
    in_history, in_summary = logged
    curves = [p["config"] for p in panels(specs[part]) if p["viewType"] == "Run History Line Plot"]
    bars = [p["config"] for p in panels(specs[part]) if p["viewType"] == "Bar Chart"]
    assert len(curves) == 11 and len(bars) == 5
    shown = {name for config in curves for name in (*config["metrics"], config.get("xAxis", "_step"))}
    assert shown <= in_history
    assert {name for config in bars for name in config["metrics"]} <= in_summary


@pytest.mark.parametrize("part", ["workspace", "report"])
def test_dashboard_shows_what_was_asked_for(specs, part):
    configs = [(p["config"].get("xAxis", "_step"), *p["config"].get("metrics", [])) for p in panels(specs[part])]
    for wanted in [
        ("_step", "train_loss"),
        ("train_seconds", "train_loss"),
        ("_step", "val_loss"),
        ("train_seconds", "val_loss"),
        ("_step", "consensus_distance"),
        ("_step", "step_ms"),
        ("_step", "wait_ms"),
        ("_step", "bytes_sent_per_step"),
    ]:
        assert wanted in configs, wanted
    assert "Run Comparer" in [panel["viewType"] for panel in panels(specs[part])]


def test_panels_of_a_section_do_not_overlap(specs):
    sections = [group for group in found(specs, "panels") if isinstance(group, list) and group]
    assert len(sections) == 8
    for section in sections:
        places = [(panel["layout"]["x"], panel["layout"]["y"]) for panel in section]
        assert len(set(places)) == len(places)


def test_columns_of_the_run_table_are_in_the_summary(specs, logged):
    columns = found(specs["workspace"], "columnOrder")[0]
    assert columns[0] == "run:displayName"
    assert {name.removeprefix("summary:") for name in columns[1:]} <= logged[1]


def test_entity_and_project_are_the_given_ones(specs):
    assert (specs["workspace"]["entity"], specs["workspace"]["project"]) == ("us", "gossip")
    assert specs["report"]["project"] == {"name": "gossip", "entityName": "us"}


@pytest.mark.parametrize(
    ("key", "message"), [("", "log in with `wandb login`, or give out=FILE"), ("0" * 40, "W&B did not take it")]
)
def test_sending_needs_an_account_and_says_so_once(tmp_path, key, message):
    environment = {"HOME": str(tmp_path), "WANDB_API_KEY": key, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    done = commands.run("scripts.dashboard", "entity=us", **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def shown_commands(language: str) -> list[list[str]]:
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    return [line.split() for block in blocks for line in block.splitlines()]


def test_commands_of_the_page_compose(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained, built = 0, 0
    for words in shown_commands("bash"):
        script, overrides = words[words.index("-m") + 1], words[words.index("-m") + 2 :]
        if script == "scripts.train":
            assert load(overrides).logger.name in ("wandb", "trackio")
            trained += 1
        else:
            assert script == "scripts.dashboard"
            out = [] if any(text.startswith("out=") for text in overrides) else ["out=runs/other.json"]
            main([*overrides, *out])
            built += 1
    assert (trained, built) == (6, 2)
    assert (tmp_path / "runs/dashboard.json").exists()


def test_commands_of_wandb_on_the_page_exist():
    lines = [words for words in shown_commands("sh") if words[0] == "wandb"]
    assert {words[1] for words in lines} == {"leet", "login", "sync"}
    for words in lines:
        done = subprocess.run([sys.executable, "-m", "wandb", words[1], "--help"], capture_output=True, text=True)
        assert done.returncode == 0
        for option in (word for word in words if word.startswith("--")):
            assert option in done.stdout
