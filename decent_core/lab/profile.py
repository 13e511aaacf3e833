"""Measure what the runtime model needs, on the machine at hand; writes a profile for scripts.advise.

    torchrun --nproc-per-node=4 -m scripts.bench profile task=gpt2 scale=tiny out=profile.json

Takes the overrides of a training run, and `repeats`. Measured on all ranks at once, without any exchange: forward,
backward, update, and how much computing times vary. Then, one at a time and without computing, the exchanges of every
feasible topology: all parameters and a single number (the latency), by size of the group and by whether
it crosses nodes; for All-Reduce, a bucket too. Slow exchanges are repeated less often.

rate=100mbit paces every connection between workers (Linux, no root needed), so that one machine stands for workers with
slow networks: each worker counts as a node of its own. Connections are limited, not links: a worker that sends to two
others at once sends twice as fast. Run it in scripts.netlab for links.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from decent_core.config.run_config import RunConfig
from decent_core.lab.pacing import bytes_a_second
from decent_core.system.files import write_atomically

SCHEMA = 1


@dataclass(frozen=True)
class Options:
    """What is not an override of the training run."""

    out: str = "results/local/profile.json"
    repeats: int = 20
    rate: str | None = None

    def __post_init__(self) -> None:
        if self.repeats < 3:
            raise ValueError(f"repeats={self.repeats}: must be at least 3, for a median and a spread")
        if self.rate is not None:
            bytes_a_second(self.rate)


def run(given: Options, config: RunConfig) -> int:
    """Measure on all ranks; rank 0 writes the profile and prints its path. Returns the exit status."""
    from decent_core.lab.measure import measure  # torch is imported only for a configuration that is right

    profile = measure(config, given.repeats, given.rate)
    if profile is not None:
        write_atomically(Path(given.out), json.dumps({"schema": SCHEMA, **profile}, indent=1))
        print(given.out)
    return 0
