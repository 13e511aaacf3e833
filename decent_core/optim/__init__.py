"""Local optimizers: what a worker does with its gradient, over which parameters, at which rate."""

from decent_core.optim.accum_adam import AccumAdam, AccumAdamW
from decent_core.optim.decay import add_coupled_decay, without_coupled_decay
from decent_core.optim.groups import assert_groups_cover, only, parameter_groups
from decent_core.optim.lars import LARS
from decent_core.optim.schedule import SCHEDULES, Schedule
from decent_core.optim.settings import OPTIMIZERS, OptimizerSettings, build, name_of, updates_tensors_alone

__all__ = [
    "LARS",
    "OPTIMIZERS",
    "SCHEDULES",
    "AccumAdam",
    "AccumAdamW",
    "OptimizerSettings",
    "Schedule",
    "add_coupled_decay",
    "assert_groups_cover",
    "build",
    "name_of",
    "only",
    "parameter_groups",
    "updates_tensors_alone",
    "without_coupled_decay",
]
