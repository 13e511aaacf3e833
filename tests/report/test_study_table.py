"""Tables that compare learning rates: they choose rates, take differences and draw as they claim to."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import matplotlib.image
import pytest

from decent_core.config.load import load
from decent_core.config.table_file import Row, Setting, TableFile, load_table
from decent_core.records.record import read_all, write
from decent_core.report import study_figure as figure
from decent_core.report.plots import save
from decent_core.report.study_figure import draw
from decent_core.report.study_table import Table
from decent_core.report.study_text import at_a_glance, markdown
from decent_core.tables.plan import Cell, plan
from decent_core.tables.planned_run import PlannedRun
from scripts import tables
from tests.support import ROOT
from tests.support.records import make_record

ALL = Setting("all", "all", {}, None)
MADE_UP = TableFile(
    name="x/made_up", title="made up",
    rows=(
        Row("a", "base", {}, None),
        Row("b", "gossip", {}, None),
        Row("c", "other", {}, (1.0, 2.0, 4.0)),
    ),
    settings=(ALL,), common={}, at_scale={}, scale="smoke", seeds=2, rates=(0.1, 0.2, 0.4),
    baseline="a", highlight=None, notes=(), shown_by=None,
)  # fmt: skip
LOSSES = {  # base is best at .2, gossip at .4, its edge; `other` diverged once at its seemingly best rate
    ("base", 0.1): (5.0, 5.2), ("base", 0.2): (4.0, 4.4), ("base", 0.4): (4.5, 4.5),
    ("gossip", 0.1): (6.0, 6.0), ("gossip", 0.2): (5.0, 5.6), ("gossip", 0.4): (4.2, 4.8),
    ("other", 1.0): (4.6, 4.6), ("other", 2.0): (4.5, 4.5), ("other", 4.0): (3.0, None),
}  # fmt: skip


def cells_of(table):
    run = PlannedRun("", (), Path(), "", 0)
    return [
        Cell(table, row, setting, rate, seed, run)
        for setting, seed, row in product(table.settings, (1, 2), table.rows)
        for rate in table.rates_of(setting, row)
    ]


def made_up_table():
    found = []
    for cell in cells_of(MADE_UP):
        loss = LOSSES[cell.row.label, cell.rate][cell.seed - 1]
        changes = {"status": "diverged", "metrics": {}} if loss is None else {}
        found.append((cell, make_record(seed=cell.seed, loss=loss or 0.0, **changes)))
    return Table(MADE_UP, found)


def test_rates_are_chosen_by_the_mean_over_seeds_and_differences_are_paired():
    base, gossip, other = made_up_table().values()
    assert (base["rate"], base["at_edge"], base["tuned"].mean) == (0.2, False, pytest.approx(4.2))
    assert (gossip["rate"], gossip["at_edge"]) == (0.4, True)
    assert gossip["difference"].mean == pytest.approx(0.3)  # (4.2 - 4.0 + 4.8 - 4.4) / 2
    assert gossip["difference"].half_width == pytest.approx(12.7062 * 0.1, rel=1e-4)  # t(.975, 1) s / sqrt(2), by hand
    assert (gossip["equal_rate"], gossip["equal"].mean) == (0.2, pytest.approx(5.3))
    assert gossip["equal_difference"].mean == pytest.approx(1.1)
    assert (other["rate"], other["missed"], other["equal"]) == (2.0, 1, None)


def test_table_says_what_was_tried_and_what_was_missed():
    text = markdown(made_up_table())
    gossip = "0.1, 0.2, 0.4 | 0.4 (edge) | 4.500 ± 3.812 | +0.300 ± 1.271 | 5.300 ± 3.812 | +1.100 ± 1.271 | 6 | 0"
    assert f"| gossip | {gossip} |" in text
    assert "| other | 1, 2, 4 | 2 | 4.500 | +0.300 ± 2.541 | – | – | 6 | 1 |" in text
    assert "\n\nall (seeds 1, 2):\n\n" in text
    assert len(made_up_table().frame()) == 9


def in_setting(found, label):
    return [(replace(cell, setting=Setting(label, label, {}, None)), record) for cell, record in found]


def settings(*labels):
    return tuple(Setting(label, label, {}, None) for label in labels)


def test_several_settings_are_seen_at_a_glance():
    found = made_up_table().found
    elsewhere = [(cell, record) for cell, record in found if cell.row.label != "other"]
    both = in_setting(found, "large") + in_setting(elsewhere, "small")
    table = Table(replace(MADE_UP, settings=settings("large", "small")), both)
    head, _, base, gossip, other = markdown(table).partition("over seeds:\n\n")[2].splitlines()[:5]
    assert head == "| method | large, 2 seeds | small, 2 seeds |"
    assert base == "| base | 4.20 ± 2.54 | 4.20 ± 2.54 |"
    assert gossip == "| gossip | 4.50 ± 3.81 | 4.50 ± 3.81 |"
    assert other == "| other | 4.50 | – |"
    assert "Each method at its own best rate" not in markdown(made_up_table())


def test_lead_of_the_highlighted_row_is_paired_by_seed():
    table = Table(replace(MADE_UP, highlight="b"), made_up_table().found)
    base, gossip, _ = table.values()
    assert base["lead"].mean == pytest.approx(-0.3)  # a loss: it is behind
    assert base["lead"].half_width == pytest.approx(gossip["difference"].half_width)
    assert "| difference | gossip's lead |" in markdown(table)
    assert "| base | 0.1, 0.2, 0.4 | 0.2 | 4.200 ± 2.541 | baseline | -0.300 ± 1.271 |" in markdown(table)
    assert "| gossip | 0.1, 0.2, 0.4 | 0.4 (edge) | 4.500 ± 3.812 | +0.300 ± 1.271 |  |" in markdown(table)


def test_row_with_one_rate_is_compared_at_it_and_has_no_edge(tmp_path):
    single = replace(MADE_UP, rates=(0.2,), rows=MADE_UP.rows[:2], notes=("taken from elsewhere",))
    losses = [(cell, LOSSES[cell.row.label, cell.rate][cell.seed - 1]) for cell in cells_of(single)]
    table = Table(single, [(cell, make_record(seed=cell.seed, loss=loss)) for cell, loss in losses])
    assert [(row["rate"], row["at_edge"]) for row in table.values()] == [(0.2, False), (0.2, False)]
    text = markdown(table)
    assert "edge" not in text
    assert "\n- taken from elsewhere\n" in text
    assert matplotlib.image.imread(draw(table, tmp_path / "figure.png")).shape[1] >= 1000


def test_half_run_table_compares_what_was_run_alike():
    """Neither a rate with fewer seeds nor the end of a grid that was never reached misleads."""
    found = made_up_table().found
    ran = [(c, r) for c, r in found if c.rate != 0.4 and (c.row.label, c.rate, c.seed) != ("base", 0.2, 2)]
    table = Table(replace(MADE_UP, settings=(ALL, *settings("not begun"))), ran)
    base, gossip, _ = table.values()
    assert (base["rate"], base["at_edge"]) == (0.1, True)  # at .2 one seed is missing, which seemed better
    assert (gossip["rate"], gossip["at_edge"]) == (0.2, True)  # the largest that was tried
    assert "not begun" not in markdown(table)


def test_figure_is_a_picture_with_a_part_for_each_setting(tmp_path, monkeypatch):
    found = [pair for label in "abc" for pair in in_setting(made_up_table().found, label)]
    drawn = []
    monkeypatch.setattr(figure, "save", lambda picture, path: drawn.append(len(picture.axes)) or save(picture, path))
    table = Table(replace(MADE_UP, settings=settings(*"abc")), found)
    assert matplotlib.image.imread(draw(table, tmp_path / "figure.png")).shape[1] >= 1000
    assert drawn == [3]


def test_runs_are_kept_and_the_table_is_made_again_of_them(tmp_path, capsys):
    for cell in plan("p/accumulation/dadam", "smoke", 1, tmp_path / "runs").cells:
        config, loss = load(cell.run.overrides), 4 + cell.rate
        record = replace(make_record("dadam_aer", loss=loss), config=config.as_dict(), config_hash=cell.run.config_hash)
        write(replace(record, run_id=cell.run.name, scale="smoke"), cell.run.record)
    where = ["run", "table=p/accumulation/dadam", "scale=smoke", "seeds=1", f"keep={tmp_path}/kept"]
    assert tables.main([*where, f"runs={tmp_path}/runs", "jobs=1"]) == 0
    text = capsys.readouterr().out
    assert "| DAdam | 0.001, 0.002, 0.004, 0.008 | 0.001 (edge) | 4.001 |" in text
    kept = tmp_path / "kept" / "p" / "accumulation"
    first = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert first.keys() >= {"runs.csv", "smoke.md", "smoke.csv", "smoke.png"}
    assert tables.main([*where, f"runs={tmp_path}/none", "jobs=0"]) == 0
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == first


def test_a_table_without_a_finished_run_is_one_message(tmp_path):
    with pytest.raises(ValueError, match="table=p/accumulation: no run is finished; leave out jobs=0 to run it"):
        tables.main(["run", "table=p/accumulation", f"runs={tmp_path}", f"results={tmp_path}", "jobs=0"])
    with pytest.raises(ValueError, match="jobs=-1: at least 1 run at once"):
        tables.main(["run", "table=p/accumulation", f"runs={tmp_path}", f"results={tmp_path}", "jobs=-1"])


@pytest.mark.parametrize("name", ["p/accumulation", "l/decentlam", "l/decentlam_small"])
def test_committed_tables_are_those_of_their_committed_records(name, tmp_path):
    last = name.rpartition("/")[2]
    folder = ROOT / "results" / "studies" / last
    records = {record.config_hash: record for record in read_all(folder / "records")}
    assert all(record.source == "measured" and not record.git_dirty for record in records.values())
    cells = plan(name, None, None, tmp_path).cells
    table = Table(load_table(name), [(c, records[c.run.config_hash]) for c in cells if c.run.config_hash in records])
    assert markdown(table) == (folder / f"study_{last}.md").read_text()
    frame = table.frame().to_csv(index=False, lineterminator="\n")
    assert frame == (folder / f"study_{last}.csv").read_text()
    readme = (ROOT / "README.md").read_text()
    assert f"<!-- study:{last} -->" not in readme or at_a_glance(table) in readme
