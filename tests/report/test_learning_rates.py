"""Tables that compare learning rates: they choose rates as they claim to, and are those of their committed runs."""

from dataclasses import replace

import matplotlib.image
import pytest

from decent_core.config.table_file import Row, Setting, TableFile
from decent_core.records.archive import Run, unpack
from decent_core.records.record import write
from decent_core.report import learning_rates_figure as figure
from decent_core.report.learning_rates import RateComparison
from decent_core.report.learning_rates_figure import draw
from decent_core.report.learning_rates_text import markdown
from decent_core.report.plots import save
from decent_core.report.run_tables import RunOptions, run_tables
from decent_core.tables.plan import plan
from tests.support.records import make_record

MADE_UP = TableFile(
    name="p/made_up", title="made up", scale="smoke", seeds=2, common={}, at_scale={},
    settings=(Setting("", "all", {}, None),),
    rows=(Row("base", "base", {}, None), Row("gossip", "gossip", {}, None), Row("other", "other", {}, (1.0, 2.0, 4.0))),
    baseline="base", highlight=None, rates=(0.1, 0.2, 0.4), notes=(), shown_by=None,
)  # fmt: skip
LOSSES = {  # base is best at .2, gossip at .4, its edge; `other` diverged once at its seemingly best rate
    ("base", 0.1): (5.0, 5.2), ("base", 0.2): (4.0, 4.4), ("base", 0.4): (4.5, 4.5),
    ("gossip", 0.1): (6.0, 6.0), ("gossip", 0.2): (5.0, 5.6), ("gossip", 0.4): (4.2, 4.8),
    ("other", 1.0): (4.6, 4.6), ("other", 2.0): (4.5, 4.5), ("other", 4.0): (3.0, None),
}  # fmt: skip


def run_of(row, rate, seed, loss, setting=""):
    changes = {"status": "diverged", "metrics": {}} if loss is None else {}
    record = make_record(seed=seed, loss=loss or 0.0, **changes)
    return Run(row, setting, replace(record, config={**record.config, "optimizer": {"name": "adamw", "lr": rate}}))


def made_up_runs():
    return [
        run_of(row, rate, seed, loss) for (row, rate), found in LOSSES.items() for seed, loss in enumerate(found, 1)
    ]


def made_up_table():
    return RateComparison(MADE_UP, made_up_runs())


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


def test_several_settings_are_seen_at_a_glance():
    two = replace(MADE_UP, settings=(Setting("l", "large", {}, None), Setting("s", "small", {}, None)))
    runs = [replace(run, setting=key) for key in "ls" for run in made_up_runs() if (key, run.row) != ("s", "other")]
    head, _, base, gossip, other = markdown(RateComparison(two, runs)).partition("over seeds:\n\n")[2].splitlines()[:5]
    assert head == "| method | large, 2 seeds | small, 2 seeds |"
    assert base == "| base | 4.20 ± 2.54 | 4.20 ± 2.54 |"
    assert gossip == "| gossip | 4.50 ± 3.81 | 4.50 ± 3.81 |"
    assert other == "| other | 4.50 | – |"
    assert "Each method at its own best rate" not in markdown(made_up_table())


def test_lead_of_the_highlighted_row_is_paired_by_seed():
    table = RateComparison(replace(MADE_UP, highlight="gossip"), made_up_runs())
    base, gossip, _ = table.values()
    assert base["lead"].mean == pytest.approx(-0.3)  # a loss: it is behind
    assert base["lead"].half_width == pytest.approx(gossip["difference"].half_width)
    assert "| difference | gossip's lead |" in markdown(table)
    assert "| base | 0.1, 0.2, 0.4 | 0.2 | 4.200 ± 2.541 | baseline | -0.300 ± 1.271 |" in markdown(table)
    assert "| gossip | 0.1, 0.2, 0.4 | 0.4 (edge) | 4.500 ± 3.812 | +0.300 ± 1.271 |  |" in markdown(table)


def test_row_with_one_rate_is_compared_at_it_and_has_no_edge(tmp_path):
    single = replace(MADE_UP, rates=(0.2,), rows=MADE_UP.rows[:2], notes=("taken from elsewhere",))
    table = RateComparison(single, [run for run in made_up_runs() if run.learning_rate == 0.2])
    assert [(row["rate"], row["at_edge"]) for row in table.values()] == [(0.2, False), (0.2, False)]
    text = markdown(table)
    assert "edge" not in text
    assert "\n- taken from elsewhere\n" in text
    assert matplotlib.image.imread(draw(table, tmp_path / "figure.png")).shape[1] >= 1000


def test_half_run_table_compares_what_was_run_alike():
    """Neither a rate with fewer seeds nor the end of a grid that was never reached misleads."""
    runs = [run for run in made_up_runs() if run.learning_rate != 0.4]
    runs.remove(run_of("base", 0.2, 2, 4.4))
    two = replace(MADE_UP, settings=(*MADE_UP.settings, Setting("new", "not begun", {}, None)))
    table = RateComparison(two, runs)
    base, gossip, _ = table.values()
    assert (base["rate"], base["at_edge"]) == (0.1, True)  # at .2 one seed is missing, which seemed better
    assert (gossip["rate"], gossip["at_edge"]) == (0.2, True)  # the largest that was tried
    assert "not begun" not in markdown(table)


def test_figure_is_a_picture_with_a_panel_for_each(tmp_path, monkeypatch):
    three = replace(MADE_UP, settings=tuple(Setting(key, key, {}, None) for key in "abc"))
    runs = [replace(run, setting=key) for key in "abc" for run in made_up_runs()]
    drawn = []
    monkeypatch.setattr(figure, "save", lambda picture, path: drawn.append(len(picture.axes)) or save(picture, path))
    image = matplotlib.image.imread(draw(RateComparison(three, runs), tmp_path / "figure.png"))
    assert image.shape[1] >= 1000
    assert drawn == [3]


def test_table_without_a_run_says_so(tmp_path):
    with pytest.raises(ValueError, match="table=p/accumulation: no run is finished; leave out jobs=0 to run it"):
        run_tables(RunOptions("p/accumulation", jobs=0, runs=f"{tmp_path}/none", results=str(tmp_path)))


def test_runs_are_kept_and_the_table_is_made_again_of_them(tmp_path, capsys):
    for cell in plan("p/accumulation", "smoke", 1, tmp_path / "runs").cells:
        run = run_of(cell.row.key, cell.rate, cell.seed, 5.0 + cell.rate)
        changes = {"run_id": cell.run.folder.name, "scale": "smoke", "config_hash": cell.run.config_hash}
        write(replace(run.record, **changes), cell.run.record)
    (tmp_path / "README.md").write_text("<!-- results:p/accumulation/smoke --><!-- /results:p/accumulation/smoke -->")
    chosen = RunOptions(
        "p/accumulation", "smoke", 1, jobs=1, runs=f"{tmp_path}/runs", keep=f"{tmp_path}/kept",
        readme=f"{tmp_path}/README.md",
    )  # fmt: skip
    assert run_tables(chosen) == 0  # all of them are finished
    kept = tmp_path / "kept" / "p" / "accumulation"
    assert sorted({run.learning_rate for run in unpack(kept)}) == [0.001, 0.002, 0.004, 0.008]
    assert "| All-Reduce, AdamW | 5.00 |" in (tmp_path / "README.md").read_text()
    first = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert first.keys() >= {"runs.csv", "smoke.md", "smoke.csv", "smoke.png"}
    assert run_tables(replace(chosen, runs=f"{tmp_path}/none", jobs=0)) == 0
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == first
    assert "best rate" in capsys.readouterr().out
