"""The embedded data of all tasks, and the functions that derive them from their sources."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

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
