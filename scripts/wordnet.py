"""Brings WordNet 3.0, which the METEOR score of translations needs: python -m scripts.wordnet  (set-up does it)."""

from decent_core.config.command_line import explained, run_main
from tasks.wmt14.wordnet import bring_wordnet


def main(arguments: list[str]) -> None:
    """Say where it lies; nothing is fetched if it is there."""
    if explained(arguments, __doc__):
        return
    if arguments:
        raise ValueError(f"{arguments[0]}: this command takes no arguments")
    print(bring_wordnet())


if __name__ == "__main__":
    run_main(main)
