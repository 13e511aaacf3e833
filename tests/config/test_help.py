"""What --help says about a configuration's keys is what a run with the same choices takes."""

import re

import pytest

from decent_core.config.help import show_help
from decent_core.config.load import load

CHOICES = [
    [],
    ["method=slowmo", "optimizer=accum_adamw"],
    ["method=diloco", "topology=complete"],
    ["method=awc", "topology=base_k"],
    ["schedule=constant"],
    ["schedule=inverse_sqrt"],
    ["schedule=multistep", "schedule.milestones=[10]"],
    ["task=imagenet", "scale=small"],
    ["experiment=l/figure2/decentlam"],
    ["engine=distributed", "logger=wandb"],
]


def shown_by(capsys, *arguments):
    assert show_help([*arguments], "Usage.")
    return capsys.readouterr().out


def keys_of(text):
    return re.findall(r"^  ([a-z_.]+)=", text, flags=re.MULTILINE)


def flat(values, prefix=""):
    for key, value in values.items():
        yield from flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]


@pytest.mark.parametrize("chosen", CHOICES, ids=" ".join)
def test_help_lists_the_keys_that_a_run_with_these_choices_has(chosen, capsys):
    has = [key for key in flat(load(chosen).as_dict()) if key not in ("scale", "experiment") and key[-5:] != ".name"]
    assert sorted(keys_of(shown_by(capsys, *chosen, "--help"))) == sorted(has)


def test_help_shows_values_as_chosen_and_marks_what_is_chosen(capsys):
    text = shown_by(capsys, "-h", "method=slowmo", "method.tau=7", "optimizer=accum_adamw")
    assert "  method.tau=7\n" in text
    assert "  optimizer.window=" in text
    assert " slowmo*" in text
    assert " accum_adamw*" in text
    assert "--help method=slowmo optimizer=accum_adamw" in shown_by(capsys, "--help")


def test_help_shows_what_has_no_value_and_must_be_given(capsys):
    text = shown_by(capsys, "--help", "experiment=l/large_batch_8k/decentlam", "scale=paper")
    assert "  optimizer.lr=(must be given)\n" in text


def test_help_refuses_a_wrong_choice():
    with pytest.raises(ValueError, match="method=slowmoo: no such method; did you mean slowmo"):
        show_help(["--help", "method=slowmoo"], "Usage.")
