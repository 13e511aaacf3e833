"""Records in files of their own are reported as the table that they are runs of."""

from dataclasses import replace
from itertools import product

from decent_core.config.table_file import load_table
from decent_core.records.identity import config_hash
from decent_core.records.record import write
from decent_core.report.single_runs import sort_out
from scripts import report
from tests.support.records import make_record


def record_of(table, row, rate, seed, *more, **changes):
    overrides = [f"experiment={table}/{row}", "scale=tiny", *more, f"optimizer.lr={rate:g}", f"seed={seed}"]
    record = make_record(seed=seed, experiment=f"{table}/{row}", overrides=overrides, **changes)
    config = {**record.config, "optimizer": {"name": "adamw", "lr": rate}, "of": [row, *more]}
    return replace(record, config=config, config_hash=config_hash(config))


def accumulation():
    table = load_table("p/accumulation")
    return [
        record_of(table.name, row.key, rate, seed, loss=5.0 + rate, run_id=f"{row.key}-{rate:g}-{seed}")
        for row, rate, seed in product(table.rows[:2], table.rates, (1, 2))
    ]


def test_rows_settings_and_rates_are_found():
    table = load_table("l/decentlam")
    setting = table.settings[-1]
    choices = [f"{key}={value}" for key, value in setting.choices.items()]
    rate = table.rates_of(setting, table.rows[1])[0]
    tables, others = sort_out([record_of(table.name, table.rows[1].key, rate, 1, *choices), make_record()])
    assert [(run.row, run.setting, run.learning_rate) for run in tables["l/decentlam"]] == [
        (table.rows[1].key, setting.key, rate)
    ]
    assert others == [make_record()]


def test_a_run_with_other_overrides_or_rates_makes_no_comparison():
    for odd in (
        record_of("p/accumulation", "dadam", 0.001, 3, "trainer.steps=[7"),
        record_of("p/accumulation", "dadam", 7.0, 3),
    ):
        records = [*accumulation(), odd]
        assert sort_out(records) == ({}, records)


def test_the_last_finished_run_counts():
    first, *rest = accumulation()
    again = replace(first, started_at="2026-01-02T00:00:00+00:00")
    stopped = replace(first, status="preempted", started_at="2026-01-03T00:00:00+00:00")
    runs = sort_out([stopped, again, first, *rest])[0]["p/accumulation"]
    assert len(runs) == 16
    assert [run.record for run in runs if run.identity == runs[0].identity] == [runs[0].record]
    assert again in [run.record for run in runs]


def test_report_shows_them_as_the_comparison(tmp_path, capsys):
    for record in accumulation():
        write(record, tmp_path / "runs" / record.run_id / "record.json")
    out = tmp_path / "out"
    assert report.main([f"records={tmp_path}/runs", f"tables={out}", f"figures={out}", "readme=null", "html=null"]) == 0
    text = (out / "p/accumulation/tiny.md").read_text()
    assert "| All-Reduce, AdamW | 0.001, 0.002, 0.004, 0.008 | 0.001 (edge) |" in text
    assert sorted(path.name for path in (out / "p/accumulation").iterdir()) == ["tiny.csv", "tiny.md", "tiny.png"]
    assert "best rate" in capsys.readouterr().out
