"""The published items: what each is called, which rows it has, and where one that is no training run is shown."""

from dataclasses import dataclass

from decent_core.config.choices import choices
from decent_core.records.identity import item_of

TITLES = {
    "p/table2_en_de": "[P] Table 2, translation en-de, Transformer base",
    "p/table2_en_fr": "[P] Table 2, translation en-fr, Transformer big",
    "p/table3": "[P] Table 3, ResNet-50 on ImageNet",
    "p/gpt2": "[P] GPT-2 on OpenWebText",
    "p/figure6_t4": "[P] Figure 6, time of an iteration, T4 GPUs",
    "p/figure6_a100": "[P] Figure 6, time of an iteration, A100 GPUs",
    "p/figure6_a40": "[P] Figure 6, time of an iteration, A40 GPUs",
    "l/figure2": "[L] Figure 2, bias on least squares",
    "l/large_batch_2k": "[L] ResNet-50, global batch 2K",
    "l/large_batch_8k": "[L] ResNet-50, global batch 8K",
    "l/large_batch_16k": "[L] ResNet-50, global batch 16K",
    "l/large_batch_32k": "[L] ResNet-50, global batch 32K",
}
#: items without runs of their own
SHOWN_ELSEWHERE = {
    "p/figure4": ("[P] Figure 4, runtime model", "simulated: make figure-runtime"),
    "p/figure7": ("[P] Figure 7, quality against time", "the runs of p/table2_en_de against their seconds"),
}


@dataclass(frozen=True)
class Item:
    """One table or figure of a paper; `rows` are names in conf/experiment."""

    name: str
    title: str
    rows: tuple[str, ...]


def all_items() -> list[Item]:
    """Every item that has training runs, in the order of the papers; an item that a user has added comes last."""
    names = {item_of(name) for name in choices("experiment")}
    order = [*(name for name in TITLES if name in names), *sorted(names - TITLES.keys())]
    return [
        Item(name, TITLES.get(name, name), tuple(row for row in choices("experiment") if item_of(row) == name))
        for name in order
    ]


def rows_of(item: str) -> tuple[str, ...]:
    """The experiments of an item; none for what is no item."""
    return next((found.rows for found in all_items() if found.name == item), ())
