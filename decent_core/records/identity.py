"""What makes two runs the same: their configuration without the keys that have no effect. No torch."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: keys of a configuration that say where, how long at a time or how chattily a run goes, but not what comes out of it
WITHOUT_EFFECT = frozenset(
    {
        "out", "resume", "target", "scale", "experiment", "logger", "task.data_dir", "engine.timeout_seconds",
        "trainer.checkpoint_every", "trainer.keep_checkpoints", "trainer.log_every", "trainer.threads",
    }
)  # fmt: skip
#: keys that came after records had been kept, with the value by which a run does what it did before: it keeps its hash
LATER = {"task.decoder": "torchvision", "task.norm": "batch"}


def without(config: Mapping[str, Any], ignore: frozenset[str], prefix: str = "") -> dict[str, Any]:
    """A nested configuration without the dotted keys in `ignore`, and without those of `LATER` that change nothing."""
    paths = {key: f"{prefix}{key}" for key in config}
    kept = {k: v for k, v in config.items() if paths[k] not in ignore and (paths[k], v) not in LATER.items()}
    return {k: without(v, ignore, f"{prefix}{k}.") if isinstance(v, Mapping) else v for k, v in kept.items()}


def config_hash(config: Mapping[str, Any], ignore: frozenset[str] = WITHOUT_EFFECT) -> str:
    """sha256 of the canonical JSON of a nested configuration without the dotted keys in `ignore`.

    Two runs with equal hashes give the same numbers on one machine. Pass `WITHOUT_EFFECT | {"seed"}` for what the seeds
    of one row have in common.
    """
    return hashlib.sha256(json.dumps(without(config, ignore), sort_keys=True).encode()).hexdigest()


def item_of(experiment: str) -> str:
    """`p/table3/dadam_aer` -> `p/table3`."""
    return experiment.rpartition("/")[0]


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys as dotted ones."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
