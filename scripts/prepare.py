"""Prepares the data of a task at a scale; started again after a kill, it continues where it stopped.

python -m scripts.prepare task=gpt2 scale=paper
python -m scripts.prepare task=gpt2 scale=paper task.dataset=FOLDER   # .parquet or .jsonl files with a column `text`
python -m scripts.prepare wordnet                                     # for METEOR; make setup does it
python -m scripts.prepare assets [NAME ...]                           # derives the embedded data again
"""

from collections.abc import Sequence

from decent_core.config.command_line import choose_verb, run_main, show_usage
from decent_core.display.preparation import PreparationDisplay


def main(arguments: Sequence[str]) -> None:
    """Prepare what the configuration's task needs, or one of the other parts; say what is there."""
    verb, rest = choose_verb(arguments, ("task", "assets", "wordnet"))
    {"task": prepare_task, "assets": derive_assets, "wordnet": bring_wordnet}[verb](rest)


def prepare_task(arguments: Sequence[str]) -> None:
    """The data of the configuration's task."""
    # not at the top: each tokenising process imports this file, and would import torch
    from decent_core.config.help import show_help
    from decent_core.config.load import load
    from decent_core.config.task_package import import_task

    if show_help(arguments, __doc__):
        return
    config = load(arguments)
    display = PreparationDisplay()
    try:
        summary = import_task(config.task_package).prepare(config.task, display)
    finally:
        display.close()
    print(summary)


def derive_assets(names: Sequence[str]) -> None:
    """The embedded data, anew: the same bytes as before unless their source or its derivation changed."""
    from tasks.derive_assets import ASSETS

    if show_usage(names, f"{__doc__}\nNames of assets: {', '.join(ASSETS)}"):
        return
    if unknown := [name for name in names if name not in ASSETS]:
        raise ValueError(f"{unknown[0]}: no such asset; choose from {', '.join(ASSETS)}")
    for name in names or ASSETS:
        path = ASSETS[name]()
        print(f"{path}: {path.stat().st_size:,} bytes")


def bring_wordnet(arguments: Sequence[str]) -> None:
    """WordNet, for METEOR; nothing is fetched if it is there."""
    from tasks.wmt14 import wordnet

    if show_usage(arguments, __doc__):
        return
    if arguments:
        raise ValueError(f"{arguments[0]}: wordnet takes no arguments")
    print(wordnet.bring_wordnet())


if __name__ == "__main__":
    run_main(main)
