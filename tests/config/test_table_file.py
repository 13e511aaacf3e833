"""Table files: what is refused, and what their rows choose."""

import pytest

from decent_core.config import table_file
from decent_core.config.table_file import find_row, load_table, table_names

GOOD = """title: A table
common: {task: gpt2, local_size: 4}
at_scale: {smoke: {local_size: 2}}
settings: {long: {label: long runs, trainer.steps: 900, rates: [0.2]}, short: {}}
rates: [0.1, 1]
baseline: first
rows:
  first: {method: allreduce}
  second: {label: The second, method: awc, local_size: 1, rates: [0.3]}
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A function that writes the table x/y and reads it."""
    monkeypatch.setattr(table_file, "TABLES", tmp_path)

    def write(text):
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / "x" / "y.yaml").write_text(text)
        load_table.cache_clear()
        return load_table("x/y")

    yield write
    load_table.cache_clear()


def test_rows_settings_and_rates(written):
    table = written(GOOD)
    first, second = table.rows
    long, short = table.settings
    assert (first.label, second.label, long.label, short.label) == ("first", "The second", "long runs", "short")
    rates = [table.rates_of(setting, row) for setting in table.settings for row in table.rows]
    assert rates == [(0.2,), (0.3,), (0.1, 1.0), (0.3,)], "a row's own, else the setting's, else the table's"
    assert table.choices_of(second, "tiny") == {"task": "gpt2", "local_size": 1, "method": "awc"}
    assert table.choices_of(second, "smoke")["local_size"] == 2
    assert long.choices == {"trainer.steps": 900}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: A table\n", "", "title: a value is missing"),
        ("baseline: first", "baseline: frist", "baseline=frist: no such row; did you mean first?"),
        ("baseline:", "base_line:", "base_line: no such key; did you mean baseline?"),
        ("rates: [0.1, 1]", "rates: [fast]", "rates"),
        ("rates: [0.3]", "rates: 0.3", "rows.second.rates=0.3: must be a list"),
        ("label: The second", "label: 2", "rows.second.label=2: must be a text"),
        ("rows:", "rows: [", "while parsing"),
        (GOOD, "- 1", "a table has keys such as title and rows"),
        (GOOD, "title: x", "give either rows, or in shown_by what shows it"),
    ],
)
def test_mistakes_in_a_file_are_named(written, old, new, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        written(GOOD.replace(old, new))
    assert str(caught.value).startswith("conf/table/x/y.yaml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tables_and_rows_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"^table=p/gpt3: no such table; did you mean p/gpt2"):
        load_table("p/gpt3")
    with pytest.raises(ValueError, match=r"^experiment=p/gpt2/dadam: no such experiment; did you mean p/"):
        find_row("p/gpt2/dadam")
    with pytest.raises(ValueError, match=r"no such row; did you mean dadam_aer"):
        load_table("p/gpt2").row("dadam_ae")


@pytest.mark.parametrize("name", table_names())
def test_committed_tables_have_a_baseline_among_their_rows_unless_they_are_about_time(name):
    table = load_table(name)
    if table.rows and "figure6" not in name:
        assert table.baseline in [row.key for row in table.rows]
