"""Studies: the grid that conf/study says, and a table and figure that choose rates as they claim to."""

import shutil
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import pytest
import yaml

from decent_core.config.compose import CONF, choices
from decent_core.config.load import load
from decent_core.records.record import read_all
from decent_core.report import study_figure as figure
from decent_core.report.plots import save
from decent_core.report.study_figure import draw
from decent_core.report.study_table import Table
from decent_core.report.study_text import markdown
from decent_core.tables.study import Line, Panel, Study, load_study, plan
from scripts import study
from tests.support import ROOT
from tests.support.records import make_record

MADE_UP = Study(
    title="made up", scale="smoke", seeds=2, common=("task=gpt2", "trainer.eval_every=0"),
    panels=(Panel("all"),),
    lines=(
        Line("base", ("method=allreduce", "optimizer=adamw")),
        Line("gossip", ("method=awc", "topology=ring", "optimizer=adamw")),
        Line("other", ("method=awc", "topology=complete", "optimizer=adamw"), rates=(1.0, 2.0, 4.0)),
    ),
    baseline="base", rates=(0.1, 0.2, 0.4),
)  # fmt: skip
LOSSES = {  # base is best at .2, gossip at .4, its edge; `other` diverged once at its seemingly best rate
    ("base", 0.1): (5.0, 5.2), ("base", 0.2): (4.0, 4.4), ("base", 0.4): (4.5, 4.5),
    ("gossip", 0.1): (6.0, 6.0), ("gossip", 0.2): (5.0, 5.6), ("gossip", 0.4): (4.2, 4.8),
    ("other", 1.0): (4.6, 4.6), ("other", 2.0): (4.5, 4.5), ("other", 4.0): (3.0, None),
}  # fmt: skip


def made_up_table(tmp_path):
    found = []
    for cell in plan(MADE_UP, "smoke", 2, tmp_path):
        loss = LOSSES[cell.line, cell.rate][cell.seed - 1]
        changes = {"status": "diverged", "metrics": {}} if loss is None else {}
        found.append((cell, make_record(seed=cell.seed, loss=loss or 0.0, **changes)))
    return Table(MADE_UP, found)


def test_rates_are_chosen_by_the_mean_over_seeds_and_differences_are_paired(tmp_path):
    base, gossip, other = made_up_table(tmp_path).values()
    assert (base["rate"], base["at_edge"], base["tuned"].mean) == (0.2, False, pytest.approx(4.2))
    assert (gossip["rate"], gossip["at_edge"]) == (0.4, True)
    assert gossip["difference"].mean == pytest.approx(0.3)  # (4.2 - 4.0 + 4.8 - 4.4) / 2
    assert gossip["difference"].half_width == pytest.approx(12.7062 * 0.1, rel=1e-4)  # t(.975, 1) s / sqrt(2), by hand
    assert (gossip["equal_rate"], gossip["equal"].mean) == (0.2, pytest.approx(5.3))
    assert gossip["equal_difference"].mean == pytest.approx(1.1)
    assert (other["rate"], other["missed"], other["equal"]) == (2.0, 1, None)


def test_table_says_what_was_tried_and_what_was_missed(tmp_path):
    text = markdown(made_up_table(tmp_path))
    gossip = "0.1, 0.2, 0.4 | 0.4 (edge) | 4.500 ± 3.812 | +0.300 ± 1.271 | 5.300 ± 3.812 | +1.100 ± 1.271 | 6 | 0"
    assert f"| gossip | {gossip} |" in text
    assert "| other | 1, 2, 4 | 2 | 4.500 | +0.300 ± 2.541 | – | – | 6 | 1 |" in text
    assert "\n\nall (seeds 1, 2):\n\n" in text
    assert len(made_up_table(tmp_path).frame()) == 9


def test_several_panels_are_seen_at_a_glance(tmp_path):
    two = replace(MADE_UP, panels=(Panel("large"), Panel("small", ("seed=3",))))
    found = made_up_table(tmp_path).found
    elsewhere = [(replace(cell, panel="small"), record) for cell, record in found if cell.line != "other"]
    table = Table(two, [(replace(cell, panel="large"), record) for cell, record in found] + elsewhere)
    head, _, base, gossip, other = markdown(table).partition("over seeds:\n\n")[2].splitlines()[:5]
    assert head == "| method | large, 2 seeds | small, 2 seeds |"
    assert base == "| base | 4.20 ± 2.54 | 4.20 ± 2.54 |"
    assert gossip == "| gossip | 4.50 ± 3.81 | 4.50 ± 3.81 |"
    assert other == "| other | 4.50 | – |"
    assert "Each method at its own best rate" not in markdown(made_up_table(tmp_path))


def test_lead_of_the_line_in_focus_is_paired_by_seed(tmp_path):
    table = Table(replace(MADE_UP, focus="gossip"), made_up_table(tmp_path).found)
    base, gossip, _ = table.values()
    assert base["lead"].mean == pytest.approx(-0.3)  # a loss: it is behind
    assert base["lead"].half_width == pytest.approx(gossip["difference"].half_width)
    assert "| difference | gossip's lead |" in markdown(table)
    assert "| base | 0.1, 0.2, 0.4 | 0.2 | 4.200 ± 2.541 | baseline | -0.300 ± 1.271 |" in markdown(table)
    assert "| gossip | 0.1, 0.2, 0.4 | 0.4 (edge) | 4.500 ± 3.812 | +0.300 ± 1.271 |  |" in markdown(table)


def test_line_with_one_rate_is_compared_at_it_and_has_no_edge(tmp_path):
    single = replace(MADE_UP, rates=(0.2,), lines=MADE_UP.lines[:2], notes=("taken from elsewhere",))
    cells = plan(single, "smoke", 2, tmp_path)
    table = Table(single, [(c, make_record(seed=c.seed, loss=LOSSES[c.line, c.rate][c.seed - 1])) for c in cells])
    assert [(row["rate"], row["at_edge"]) for row in table.values()] == [(0.2, False), (0.2, False)]
    text = markdown(table)
    assert "edge" not in text
    assert "\n- taken from elsewhere\n" in text
    assert matplotlib.image.imread(draw(table, tmp_path / "figure.png")).shape[1] >= 1000


def test_half_run_study_compares_what_was_run_alike(tmp_path):
    """Neither a rate with fewer seeds nor the end of a grid that was never reached misleads."""
    found = made_up_table(tmp_path).found
    ran = [(c, r) for c, r in found if c.rate != 0.4 and (c.line, c.rate, c.seed) != ("base", 0.2, 2)]
    two = replace(MADE_UP, panels=(*MADE_UP.panels, Panel("not begun")))
    table = Table(two, ran)
    base, gossip, _ = table.values()
    assert (base["rate"], base["at_edge"]) == (0.1, True)  # at .2 one seed is missing, which seemed better
    assert (gossip["rate"], gossip["at_edge"]) == (0.2, True)  # the largest that was tried
    assert "not begun" not in markdown(table)


def test_figure_is_a_picture_with_a_panel_for_each(tmp_path, monkeypatch):
    three = replace(MADE_UP, panels=tuple(Panel(label) for label in "abc"))
    found = [(replace(cell, panel=label), record) for cell, record in made_up_table(tmp_path).found for label in "abc"]
    drawn = []
    monkeypatch.setattr(figure, "save", lambda picture, path: drawn.append(len(picture.axes)) or save(picture, path))
    image = matplotlib.image.imread(draw(Table(three, found), tmp_path / "figure.png"))
    assert image.shape[1] >= 1000
    assert drawn == [3]


@pytest.mark.parametrize("name", choices("study"))
def test_every_cell_of_a_study_is_a_run_of_its_own_that_differs_as_it_says(name):
    made = load_study(name)
    cells = plan(made, made.scale, 1, Path("runs"))
    assert len({cell.run.config_hash for cell in cells}) == len(cells)
    assert {(cell.panel, cell.line) for cell in cells} == {
        (panel.label, line.label) for panel in made.panels for line in made.lines
    }
    assert all(load(cell.run.overrides).optimizer.lr == cell.rate for cell in cells)
    for panel in made.panels:
        configs = [load(cell.run.overrides) for cell in cells if cell.panel == panel.label]
        assert len({repr(config.task) for config in configs}) == 1
        assert len({repr(config.trainer) for config in configs}) == 1
        assert len({repr(config.schedule) for config in configs}) == 1


def test_study_of_large_batches_has_the_methods_of_the_published_rows():
    made = load_study("decentlam")
    for batch in ("8k", "32k"):
        rows = [name for name in choices("experiment") if name.startswith(f"l/large_batch_{batch}/")]
        published = {(c.method.name, c.optimizer.name, c.topology.name) for c in map(row, rows)}
        here = [c for c in plan(made, "tiny", 1, Path("runs")) if f"batch={batch}" in c.run.overrides]
        configs = [load(cell.run.overrides) for cell in here]
        assert {(c.method.name, c.optimizer.name, c.topology.name) for c in configs} == published
        assert {c.task.global_batch for c in configs} == {row(rows[0]).task.global_batch}


def row(name):
    return load([f"experiment={name}", "scale=tiny"])


def test_a_wrong_name_and_an_empty_study_are_one_message(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="name=acumulation: no such study; did you mean accumulation"):
        load_study("acumulation")
    unknown = yaml.safe_load((CONF / "study" / "accumulation.yaml").read_text()) | {"focus": "DAdma"}
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "accumulation.yaml").write_text(yaml.safe_dump(unknown))
    monkeypatch.setattr("decent_core.tables.study.CONF", tmp_path)
    with pytest.raises(ValueError, match="conf/study/accumulation: focus=DAdma: none of its lines has this label"):
        load_study("accumulation")
    monkeypatch.undo()
    for mistake in ("seeds=0: must be at least 1", "jobs=-1: at least 1 run at once"):
        with pytest.raises(ValueError, match=mistake):
            study.main(["name=accumulation", f"runs={tmp_path}", f"results={tmp_path}", mistake.partition(":")[0]])
    with pytest.raises(ValueError, match="no run of the study is finished"):
        study.main(["name=accumulation", f"runs={tmp_path}", f"results={tmp_path}", "jobs=0"])


def test_study_runs_keeps_its_records_and_is_made_again_of_them(tmp_path, monkeypatch, capsys):
    small = replace(MADE_UP, rates=(0.001, 0.002), seeds=1, lines=MADE_UP.lines[:1])
    monkeypatch.setattr(study, "load_study", lambda name: small)
    where = ["name=made_up", f"runs={tmp_path}/runs", f"keep={tmp_path}/kept"]
    assert study.main([*where, "jobs=2"]) == 0
    kept = tmp_path / "kept" / "made_up"
    records = read_all(kept / "records")
    assert sorted(record.config["optimizer"]["lr"] for record in records) == [0.001, 0.002]
    first = {path.name: path.read_bytes() for path in kept.glob("study_*")}
    assert study.main([f"runs={tmp_path}/none", *where[::2], "jobs=0"]) == 0
    assert {path.name: path.read_bytes() for path in kept.glob("study_*")} == first
    assert "best rate" in capsys.readouterr().out


@pytest.mark.parametrize("kept", sorted(path.name for path in (ROOT / "results" / "studies").glob("*")))
def test_committed_studies_are_those_of_their_committed_records(kept, tmp_path, capsys):
    folder = ROOT / "results" / "studies" / kept
    records = read_all(folder / "records")
    assert records
    assert all(record.source == "measured" and not record.git_dirty for record in records)
    shutil.copytree(folder / "records", tmp_path / kept / "records")
    shutil.copy(ROOT / "README.md", tmp_path)
    where = [f"runs={tmp_path}/none", f"keep={tmp_path}", f"readme={tmp_path}/README.md"]
    assert study.main([f"name={kept}", *where, "jobs=0"]) == 0
    assert (tmp_path / "README.md").read_text() == (ROOT / "README.md").read_text()
    for end in ("md", "csv"):
        again, committed = (where / kept / f"study_{kept}.{end}" for where in (tmp_path, folder.parent))
        assert again.read_text() == committed.read_text()
