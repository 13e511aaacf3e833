"""Derives the embedded data again (all of it without a name): python -m scripts.derive_assets [NAME ...]"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from decent_core.config.command_line import explained, run_main
from tasks.gpt2 import derive_asset as derive_text
from tasks.imagenet import derive_asset as derive_images
from tasks.wmt14 import derive_asset as derive_help

#: asset -> the function that writes it
ASSETS: dict[str, Callable[[], Path]] = {
    "fashion_mnist_12k": derive_images.fashion_mnist_12k,
    "sotu": derive_text.sotu,
    "gpt2_bpe": derive_text.gpt2_bpe,
    "help_en_de": partial(derive_help.help_pairs, "de"),
    "help_en_fr": partial(derive_help.help_pairs, "fr"),
}


def main(names: list[str]) -> None:
    """Writes the assets anew; the same bytes as before unless their source or its derivation changed."""
    if explained(names, f"{__doc__}\n\nNames: {', '.join(ASSETS)}"):
        return
    for name in names:
        if name not in ASSETS:
            raise ValueError(f"{name}: no such asset; choose from {', '.join(ASSETS)}")
    for name in names or ASSETS:
        path = ASSETS[name]()
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    run_main(main)
