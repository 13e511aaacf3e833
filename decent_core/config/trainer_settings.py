"""Settings of a training run, validated before anything is built. The values stand in `conf/`, no defaults here."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TrainerSettings:
    """How long and how a run trains; all intervals are in steps."""

    steps: int
    eval_every: int
    checkpoint_every: int  # 0: none but the one that a signal asks for
    log_every: int
    keep_checkpoints: int
    micro_batches: int  # parts into which a worker's batch is split (gradient accumulation)
    clip_norm: float | None  # the worker's global gradient norm is clipped to this; null: no clipping
    precision: Literal["fp32", "fp64", "bf16", "fp16"]  # bf16 and fp16 are autocast over fp32 parameters
    compile: bool
    channels_last: bool
    batch_norm: Literal["average", "recompute", "local"]  # BN statistics of the averaged model
    diverged_patience: int  # consecutive non-finite losses that end the run as diverged
    threads: int | None  # CPU threads of this process; null: all cores, shared by the processes of a node
