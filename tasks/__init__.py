"""The learning problems. Each package has `Settings` (a frozen dataclass), `build` and, if it needs data, `prepare`."""

import importlib
from types import ModuleType

#: task name -> its package; imported only when it is used
TASKS = {
    "gpt2": "tasks.gpt2",
    "imagenet": "tasks.imagenet",
    "regression": "tasks.regression",
    "wmt14_en_de": "tasks.wmt14",
    "wmt14_en_fr": "tasks.wmt14",
}


def load(name: str) -> ModuleType:
    """The package of task `name`; ValueError names the tasks that exist."""
    if name not in TASKS:
        raise ValueError(f"Unknown task {name!r}: choose one of {', '.join(sorted(TASKS))}.")
    return importlib.import_module(TASKS[name])
