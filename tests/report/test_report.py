import csv
import io
import shutil

import matplotlib.image
import numpy as np
import pandas
import pytest
from rich.console import Console

from decent_core.records.archive import keep, read_all
from decent_core.records.lines import Run
from decent_core.records.published import read_published
from decent_core.records.record import write
from decent_core.report.compare import compare
from decent_core.report.formats import show
from decent_core.report.make_tables import make_reports
from decent_core.report.notes import metric_label, origins
from decent_core.report.publish import publish, update_readme
from decent_core.system.files import write_atomically
from scripts import report
from tests.support import ROOT
from tests.support.records import make_record

ROWS = ("allreduce_adamw", "accum_adamw_aer", "dadam_aer")


def store(folder, records):
    for record in records:
        write(record, folder / record.run_id / "record.json")
    return folder


def table_of(records):
    (made,) = make_reports(compare(records), read_published(ROOT / "results" / "published.csv"))
    return made


def cells_of(records):
    made = table_of(records)
    return {
        cells[0].removesuffix(", simulated"): dict(zip(made.header(), cells, strict=True)) for cells in made.cells()
    }


def test_table_of_single_runs_says_so_and_gives_no_interval():
    records = [make_record(row, loss=5.0 + 0.1 * i) for i, row in enumerate(ROWS)]
    cells = cells_of(records)
    assert cells["allreduce_adamw"]["difference to All-Reduce"] == "baseline"
    assert cells["dadam_aer"] == {
        "run": "dadam_aer, simulated", "seeds": "1", "validation loss (tiny)": "5.2000", "local models": "5.2100",
        "consensus distance": "0.250", "MiB sent a step": "2.00", "training seconds": "4.0",
        "difference to All-Reduce": "+0.2000", "published": "–",
    }  # fmt: skip
    assert "Every row is a single run" in table_of(records).markdown()


def test_table_of_several_seeds_has_paired_intervals_and_counts_what_was_missed():
    noise = {1: 0.0, 2: 0.3, 3: -0.1}
    records = [make_record("allreduce_adamw", seed, 5.0 + noise[seed]) for seed in noise]
    records += [make_record("dadam_aer", seed, 5.5 + noise[seed]) for seed in (1, 2)]
    records += [make_record("dadam_aer", 3, status="diverged", metrics={})]
    cells = cells_of(records)
    assert cells["dadam_aer"]["seeds"] == "2 + 1 diverged"
    assert cells["dadam_aer"]["difference to All-Reduce"] == "+0.5000 ± 0.0000"
    assert cells["allreduce_adamw"]["validation loss (tiny)"] == "5.0667 ± 0.5171"  # t(.975, 2) s / sqrt(3), by hand
    assert "95 % Student-t interval" in table_of(records).markdown()


def test_table_shows_a_row_that_never_finished():
    cells = cells_of([make_record(), make_record("dadam_aer", status="diverged", metrics={})])
    assert cells["dadam_aer"]["seeds"] == "0 + 1 diverged"
    assert cells["dadam_aer"]["validation loss (tiny)"] == "–"


def test_table_shows_published_values_and_what_is_not_known_of_them():
    records = [make_record(row) for row in ROWS]
    notes = " ".join(table_of(records).notes())
    assert "no final loss could be established" in notes
    assert "2.9689" in notes
    assert "cannot be compared" in notes
    changes = {"experiment": "p/table3/dadam_aer", "primary_metric": "top1", "metrics": {"top1": 70.0}}
    assert cells_of([make_record("dadam_aer", **changes)])["dadam_aer"]["published"] == "75.31"


def test_table_names_commit_device_and_uncommitted_changes():
    notes = table_of([make_record(), make_record("dadam_aer", git_dirty=True, git_commit="badc0de" * 5)]).notes()
    assert any("c0ffeec0ff, none, torch 2.14.1" in note for note in notes)
    assert any("badc0debad with uncommitted changes" in note for note in notes)


def test_table_on_a_terminal_fits_80_columns_and_cuts_nothing():
    stream = io.StringIO()
    made = table_of([make_record(row, source="measured") for row in (*ROWS, "allreduce_accum_adamw")])
    show(made, Console(file=stream, width=80))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    ran = [cells for cells in made.cells() if "not run" not in cells]
    assert "Not run: accum_adamw_complete, dadam_complete." in " ".join(lines)
    for cell in (cell for cells in ran for cell in cells if cell not in ("1", "–")):
        assert any(cell in line for line in lines)


def test_metric_label_is_readable():
    assert metric_label("val_loss") == "validation loss"
    assert metric_label("top1") == "top1"


def test_publish_writes_table_data_and_figure_from_records_alone(tmp_path):
    records = store(tmp_path / "records", [make_record(row, seed) for row in ROWS for seed in (1, 2)])
    publish(read_all(records), tmp_path / "tables", tmp_path / "figures")
    markdown = (tmp_path / "tables" / "p/gpt2/tiny.md").read_text()
    assert all(row in markdown for row in ROWS)
    with open(tmp_path / "tables" / "p/gpt2/tiny.csv", newline="") as stream:
        lines = {line["run"]: line for line in csv.DictReader(stream)}
    assert float(lines["dadam_aer, simulated"]["val_loss"]) == 5.0
    assert lines["dadam_aer, simulated"]["seeds"] == "2"
    assert lines["dadam_aer, simulated"]["published"] == ""
    image = matplotlib.image.imread(tmp_path / "figures" / "p/gpt2/tiny.png")
    assert image.shape[1] >= 1000
    drawn = {tuple(colour) for colour in np.round(255 * image[..., :3].reshape(-1, 3)).astype(int)}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= drawn  # one colour a way to communicate


def test_publish_twice_gives_the_same_bytes(tmp_path):
    records = store(tmp_path / "records", [make_record(row) for row in ROWS])
    for name in ("a", "b"):
        publish(read_all(records), tmp_path / name, tmp_path / name)
    for end in ("md", "csv", "tex", "png"):
        assert len({(tmp_path / name / f"p/gpt2/tiny.{end}").read_bytes() for name in "ab"}) == 1


def test_readme_changes_between_its_markers_only_and_once(tmp_path):
    readme = tmp_path / "README.md"
    write_atomically(readme, "before\n<!-- results:p/gpt2/tiny -->old<!-- /results:p/gpt2/tiny -->\nafter\n")
    reports = publish([make_record()], tmp_path / "t", tmp_path / "f")
    update_readme(readme, reports, tmp_path / "f")
    text = readme.read_text()
    assert text.startswith("before\n<!-- results:p/gpt2/tiny -->\n\n![")
    assert text.endswith("<!-- /results:p/gpt2/tiny -->\nafter\n")
    assert "(f/p/gpt2/tiny.png)" in text
    assert reports[0].markdown() in text
    update_readme(readme, reports, tmp_path / "f")
    assert readme.read_text() == text


def plain(task="imagenet", **changes):
    """A run that is no row of an item."""
    return make_record(experiment=None, task=task, **changes)


def test_no_two_reports_share_their_files(tmp_path):
    records = [
        plain(loss=1.0), plain("gpt2", loss=2.0),
        make_record(experiment="imagenet/a", task="imagenet", loss=3.0),
        make_record(experiment="gpt2/a", loss=4.0),
        make_record(experiment="mine/a", loss=5.0), make_record(experiment="mine/b", task="imagenet", loss=6.0),
    ]  # fmt: skip
    reports = publish(records, tmp_path, tmp_path)
    files = {str(path.relative_to(tmp_path).with_suffix("")): path for path in tmp_path.rglob("*.csv")}
    losses = {name: set(pandas.read_csv(path)["val_loss"]) for name, path in files.items()}
    assert losses == {
        "other/imagenet/tiny": {1.0}, "other/gpt2/tiny": {2.0}, "imagenet/tiny": {3.0}, "gpt2/tiny": {4.0},
        "mine/gpt2/tiny": {5.0}, "mine/imagenet/tiny": {6.0},
    }  # fmt: skip
    assert {made.name for made in reports} == losses.keys()
    assert next(made for made in reports if made.item == "gpt2").title.startswith("gpt2, here")


def test_reports_of_one_name_and_of_no_name_are_refused(tmp_path):
    records = [make_record(experiment="other/gpt2/x"), plain("gpt2")]
    with pytest.raises(ValueError, match="other/gpt2, task=gpt2: both reports would be named other/gpt2/tiny"):
        publish(records, tmp_path, tmp_path)
    for name in ("../x", "/etc/x", "p/./x"):
        with pytest.raises(ValueError, match=r"experiment=.*: no name for a folder of results"):
            publish([make_record(experiment=name)], tmp_path, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_readme_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "missing.md", tmp_path, tmp_path / "binary"):
        with pytest.raises(ValueError, match=f"^readme={path}: cannot be read"):
            update_readme(path, [], tmp_path)


def test_report_without_records_says_what_writes_them(tmp_path):
    with pytest.raises(ValueError, match="no record there; make reproduce"):
        report.main([f"records={tmp_path}", f"tables={tmp_path}", f"figures={tmp_path}", "readme=null"])


def test_committed_results_are_those_of_the_committed_runs(tmp_path, capsys):
    shutil.copy(ROOT / "README.md", tmp_path)
    where = (f"tables={tmp_path}/results", f"figures={tmp_path}/results", f"readme={tmp_path}/README.md", "html=null")
    assert report.main([f"records={ROOT}/results", *where]) == 0
    made = {path.relative_to(tmp_path) for path in (tmp_path / "results").rglob("*.*")}
    assert len(made) == 6 * 4 + 3 * 3
    for path in made:
        if path.suffix != ".png":  # bytes of a picture depend on fonts
            assert (tmp_path / path).read_bytes() == (ROOT / path).read_bytes()
        assert (ROOT / path).exists()
    assert (tmp_path / "README.md").read_text() == (ROOT / "README.md").read_text()


def test_report_reads_packed_tables_as_it_reads_record_files(tmp_path, capsys):
    records = [make_record(row, seed, 5.0 + seed, run_id=f"{row}{seed}") for row in ROWS for seed in (1, 2)]
    keep([Run(record.experiment.rpartition("/")[2], "", record) for record in records], tmp_path / "packed/p/gpt2")
    store(tmp_path / "single", records)
    for name in ("packed", "single"):
        out = tmp_path / "out" / name
        options = [f"tables={out}", f"figures={out}", "readme=null", f"html={out}/report.html"]
        assert report.main([f"records={tmp_path / name}", *options]) == 0
    for name in ("p/gpt2/tiny.md", "p/gpt2/tiny.csv", "p/gpt2/tiny.tex", "p/gpt2/tiny.png", "report.html"):
        assert len({(tmp_path / "out" / which / name).read_bytes() for which in ("packed", "single")}) == 1
    assert "dadam_aer" in capsys.readouterr().out


def test_further_published_metrics_and_outputs_are_shown(tmp_path):
    outputs = [{"source": "a | b", "reference": "c", "translation": "d"}]
    record = make_record(
        "allreduce_adamw", task="wmt14_en_de", experiment="p/table2_en_de/allreduce_adam", outputs=outputs,
        notes={"bleu": "a signature"}, metrics={"val_loss": 3.0, "bleu": 6.54321, "val_perplexity": 20.0},
    )  # fmt: skip
    write(record, tmp_path / "record.json")
    (report,) = publish([record], tmp_path, tmp_path)
    text = (tmp_path / f"{report.name}.md").read_text()
    header = next(line for line in text.splitlines() if line.startswith("| run"))
    assert "| published | bleu | bleu, published |" in header
    assert "| 6.5432 | 27.79 ± 0.16 |" in text
    assert "| dadam_aer | not run | – | – | – | – | 27.58 ± 0.06 |" in text
    assert "| a \\| b | c | d |" in text
    assert "bleu: a signature." in text
    assert "cannot be compared with published ones" in text


def test_commits_of_one_machine_are_named_in_one_sentence():
    made = [("b" * 40, False, "one"), ("a" * 40, True, "one"), ("b" * 40, False, "one"), ("c" * 40, False, "two")]
    versions = {"torch": "2"}
    runs = [make_record(git_commit=c, git_dirty=d, device=on, versions=versions) for c, d, on in made]
    assert origins(runs) == [
        "Run with commit aaaaaaaaaa with uncommitted changes or bbbbbbbbbb, one, torch 2.",
        "Run with commit cccccccccc, two, torch 2.",
    ]
