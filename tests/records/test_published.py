import pytest

from decent_core.records.published import published_value, read_published
from tests.support import ROOT
from tests.support.records import make_record

PUBLISHED = ROOT / "results" / "published.csv"


def test_published_values_are_complete_and_joined_by_experiment():
    published = read_published(PUBLISHED)
    assert sum(entry.metric in ("bleu", "meteor") for entry in published) == 20
    assert sum(entry.metric in ("top1", "top5") or entry.task == "imagenet" for entry in published) == 15
    assert sum(entry.metric == "iteration_ms" and entry.task != "gpt2" for entry in published) == 36
    record = make_record("dadam_aer", experiment="p/table3/dadam_aer")
    assert published_value(published, record.experiment, "top1").value == 75.31
    other = make_record("dadam_aer", experiment=None, task="imagenet")
    assert published_value(published, other.experiment, "top1") is None


def test_published_experiments_exist_in_conf():
    folder = PUBLISHED.parent.parent / "conf" / "experiment"
    named = {entry.experiment for entry in read_published(PUBLISHED) if entry.experiment}
    assert {name for name in named if any((folder / name).parent.glob("*.yaml"))} == {
        name for name in named if (folder / f"{name}.yaml").exists()
    }
    assert {"p/gpt2/allreduce_adamw", "p/gpt2/accum_adamw_aer"} <= named


def test_published_gpt2_losses_are_not_invented():
    published = read_published(PUBLISHED)
    assert published_value(published, make_record("allreduce_adamw").experiment, "val_loss").value is None
    assert published_value(published, make_record("dadam_aer").experiment, "val_loss") is None
    references = {entry.metric: entry.value for entry in published if entry.task == "gpt2" and not entry.experiment}
    assert references == {"val_loss": 2.9689, "train_loss": 2.957, "iteration_ms": 178}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("plus_minus,", "", "line 1: there is no column 'plus_minus'"),
        (",27.79,", ",about 28,", "line 2: column 'value' is 'about 28', expected a number or nothing"),
        (",16,4,", ",16.5,4,", "line 2: column 'world_size' is '16.5', expected a whole number"),
        (",27.79,", ",", "line 2: 12 cells, the header has 13"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, old, new, problem):
    (tmp_path / "published.csv").write_text(PUBLISHED.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=f"^{tmp_path}/published.csv, {problem}"):
        read_published(tmp_path / "published.csv")
    with pytest.raises(ValueError, match=r"missing\.csv: cannot be read"):
        read_published(tmp_path / "missing.csv")
