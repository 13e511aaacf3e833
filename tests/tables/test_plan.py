"""Which runs a plan has, what it says about them, and the jobs file that it writes."""

import re
import shlex
from dataclasses import replace

import pytest

from decent_core.config.load import load
from decent_core.config.table_file import experiments, load_table, table_names
from decent_core.records.record import write
from decent_core.tables.costs import row_elements
from decent_core.tables.jobs import read_jobs
from decent_core.tables.plan import plan
from scripts import reproduce, tables
from tests.support.records import make_record


def plan_text(capsys, *arguments):
    tables.main(["plan", *arguments, "records=none"])
    return capsys.readouterr().out


def test_plan_lists_costs_and_writes_a_line_a_run(tmp_path, capsys):
    out = tmp_path / "jobs.txt"
    arguments = ["table=p-table2_en_de", "seeds=3", f"out={out}", f"runs={tmp_path}", "device=A40"]
    text = plan_text(capsys, *arguments)
    hours = 3 * 137_000 * 195.5 * 16 / 3.6e6
    elements = row_elements(load(["experiment=p/table2_en_de/allreduce_adam", "scale=paper"]))
    sent = 137_000 * 2 * 15 / 16 * 4 * elements / 1e9
    (line,) = [line.split() for line in text.splitlines() if line.startswith("  allreduce_adam ")]
    assert line == ["allreduce_adam", "3", "0", "16", "137,000", "196", f"{hours:,.0f}", f"{sent:,.0f}"]
    lines = [shlex.split(line) for line in out.read_text().splitlines()]
    assert len(lines) == 21
    assert len({line[-1] for line in lines}) == 21
    config = load(lines[0])
    assert config.engine.name == "distributed"
    assert config.out.endswith(config.config_hash[:8])


def test_finished_runs_are_left_out_and_a_changed_configuration_is_a_new_run(tmp_path, capsys):
    out = tmp_path / "jobs.txt"
    arguments = ["table=p-gpt2", "scale=tiny", "seeds=2", f"runs={tmp_path}", f"out={out}"]
    plan_text(capsys, *arguments)
    first, second, third, *_ = read_jobs(out)
    write(replace(make_record(), config_hash=first.config_hash), first.record)
    write(replace(make_record(), config_hash=second.config_hash, status="diverged"), second.record)
    write(replace(make_record(), config_hash=third.config_hash, status="failed", message="broke"), third.record)
    plan_text(capsys, *arguments)
    assert [run.folder for run in read_jobs(out)][:2] == [third.folder, read_jobs(out)[1].folder]
    assert len(read_jobs(out)) == 10
    plan_text(capsys, *arguments, "overrides=[trainer.clip_norm=2]")
    assert len(read_jobs(out)) == 12
    assert not {run.folder for run in read_jobs(out)} & {first.folder, second.folder, third.folder}


def test_rows_without_runs_say_why(tmp_path, capsys):
    text = plan_text(capsys, "table=l-large_batch_8k", f"runs={tmp_path}")
    assert "Left out: optimizer.lr: task=imagenet has no learning rate for optimizer=" in text
    assert "  l/large_batch_8k: awc_dmsgd, d2, da" in text
    text = plan_text(capsys, "table=l-large_batch_8k", f"runs={tmp_path}", "overrides=[optimizer.lr=0.1]")
    assert "Left out" not in text
    assert re.search(r"all +9 ", text)
    assert "task=regression has no such scale; it has smoke, tiny" in plan_text(
        capsys, "table=l-figure2", f"runs={tmp_path}"
    )
    with pytest.raises(ValueError, match=r"table=p-figure4: .*make figure-runtime"):
        tables.main(["plan", "table=p-figure4"])
    with pytest.raises(ValueError, match=r"table=p-figure7: .*p/table2_en_de"):
        tables.main(["plan", "table=p-figure7"])


def test_rows_that_need_a_launcher_are_left_out_where_there_is_none(tmp_path):
    found = plan("p-figure6_t4 p/table2_en_de/dadam_aer", "tiny", 1, tmp_path)
    assert [run.name for run in found.runs] == ["p/table2_en_de/dadam_aer-s1"]
    assert len(found.left_out) == 12
    assert set(found.left_out.values()) == {"engine=distributed: it needs a launcher, as make submit or torchrun is"}


def test_reproduce_at_paper_scale_shows_the_plan(tmp_path, capsys):
    assert reproduce.main(["scale=paper", "experiments=p-gpt2", f"runs={tmp_path}"]) == 0
    text = capsys.readouterr().out
    assert "allreduce_adamw" in text
    assert "make submit TABLE=p/gpt2 SCALE=paper SEEDS=1 CLUSTER=example DRY=1" in text
    assert len(read_jobs(tmp_path / "paper-jobs.txt")) == 6


def test_a_table_is_chosen_by_name_row_pattern_or_its_beginning(tmp_path):
    def chosen(text):
        return {cell.experiment for cell in plan(text, "smoke", 1, tmp_path).cells}

    assert chosen("p/gpt2") == {name for name in experiments() if name.startswith("p/gpt2/")}
    assert chosen("p/gpt2/dadam_*") == {"p/gpt2/dadam_aer", "p/gpt2/dadam_complete"}
    assert chosen("p-table2") == chosen("p/table2*") == chosen("p/table2_en_de p/table2_en_fr")
    assert {name.rpartition("/")[0] for name in chosen("p/accumulation/dadam p/gpt2/dadam_aer")} == {
        "p/accumulation", "p/gpt2",
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"none\*: no such table or row; there are the tables l/decentlam, "):
        plan("none*", "tiny", 1, tmp_path)


def test_a_table_that_compares_learning_rates_is_run_only_by_its_own_name(tmp_path):
    def chosen(text):
        return {cell.table.name for cell in plan(text, None, 1, tmp_path).cells}

    assert chosen("p/*") == {"p/table2_en_de", "p/table2_en_fr", "p/table3", "p/gpt2"}
    assert chosen("p-accumulation") == chosen("p/accumulation") == chosen("p/accumulation/dadam*") == {"p/accumulation"}
    assert chosen("l-decentlam_small") == chosen("l/decentlam_small/*") == {"l/decentlam_small"}
    assert chosen("l-decentlam/d2 l/decentlam*/d2 p/gpt2/dadam_aer") == {"p/gpt2"}


@pytest.mark.parametrize("name", [name for name in table_names() if load_table(name).rates])
def test_every_run_of_a_grid_differs_from_each_other_as_the_table_says(name, tmp_path):
    table = load_table(name)
    cells = plan(name, None, 1, tmp_path).cells
    assert len({cell.run.config_hash for cell in cells}) == len({cell.run.folder for cell in cells}) == len(cells)
    assert len({cell.run.name for cell in cells}) == len(cells)
    rates = {
        (setting.key, row.key, rate)
        for setting in table.settings for row in table.rows for rate in table.rates_of(setting, row)
    }  # fmt: skip
    assert {(cell.setting.key, cell.row.key, cell.rate) for cell in cells} == rates
    configs = [load(cell.run.overrides) for cell in cells]
    for cell, config in zip(cells, configs, strict=True):
        assert (config.optimizer.lr, config.scale) == (cell.rate, table.scale)
    for setting in table.settings:
        own = [config for cell, config in zip(cells, configs, strict=True) if cell.setting == setting]
        assert len({repr((config.task, config.trainer, config.schedule)) for config in own}) == 1


def test_table_of_large_batches_has_the_methods_of_the_published_rows(tmp_path):
    def chosen(found):
        return {(c.method.name, c.optimizer.name, c.topology.name, c.task.global_batch) for c in found}

    cells = plan("l/decentlam", "tiny", 1, tmp_path).cells
    for batch in ("8k", "32k"):
        published = [load(run.overrides) for run in plan(f"l/large_batch_{batch}", "tiny", 1, tmp_path).runs]
        ours = [load(cell.run.overrides) for cell in cells if cell.setting.key.startswith(f"batch_{batch}_")]
        names = {name[:2] + name[3:] for name in chosen(ours)}
        assert names == {name[:2] + name[3:] for name in chosen(published)}


def test_a_changed_configuration_has_another_folder(tmp_path):
    runs = plan("p/gpt2/dadam_aer", "smoke", 2, tmp_path).runs
    assert [run.folder.name[: len("dadam_aer-s1-")] for run in runs] == ["dadam_aer-s1-", "dadam_aer-s2-"]
    assert all(run.config_hash.startswith(run.folder.name.rpartition("-")[2]) for run in runs)
    (other,) = plan("p/gpt2/dadam_aer", "smoke", 1, tmp_path, ["trainer.clip_norm=2"]).runs
    assert other.folder not in [run.folder for run in runs]


@pytest.mark.parametrize("given", ["out=elsewhere", "seed=3", "scale=tiny", "experiment=p/gpt2/dadam_aer"])
def test_what_the_plan_itself_chooses_is_no_override(tmp_path, given):
    for verb in ("plan", "submit"):
        cluster = ["cluster=example", "dry=true"] if verb == "submit" else [f"runs={tmp_path}"]
        with pytest.raises(ValueError, match=re.escape(f"overrides: {given}: {given.partition('=')[0]} is chosen")):
            tables.main([verb, "table=p/gpt2", *cluster, f"overrides=[{given}]"])


def test_mistakes_are_one_message(tmp_path):
    with pytest.raises(ValueError, match="scale=tinny: no such scale; did you mean tiny"):
        plan("p/gpt2", "tinny", 1, tmp_path)
    with pytest.raises(ValueError, match="seeds=0: must be at least 1"):
        plan("p/gpt2", "tiny", 0, tmp_path)
    with pytest.raises(ValueError, match="swim: neither key=value nor one of list, run, plan, submit, report"):
        tables.main(["swim"])


def test_list_shows_every_table_with_its_title(capsys):
    assert tables.main(["list"]) == 0
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines()] == table_names()
    assert "[P] GPT-2 on OpenWebText (6 rows)" in text
    assert "make figure-runtime" in text
