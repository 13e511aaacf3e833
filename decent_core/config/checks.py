"""What a configuration must not hold: values out of range, and combinations in which something would be ignored."""

from typing import Any

from decent_core.config.run_config import RunConfig

SMALLEST = {
    "seed": 0, "world_size": 1, "trainer.steps": 1, "trainer.eval_every": 0, "trainer.checkpoint_every": 0,
    "trainer.log_every": 1, "trainer.keep_checkpoints": 1, "trainer.micro_batches": 1, "trainer.clip_norm": 0,
    "trainer.diverged_patience": 1, "trainer.threads": 1,
}  # fmt: skip


def check(config: RunConfig) -> None:
    """Raises ValueError with the key, the value and the reason."""
    _check_numbers(config)
    _check_combination(config)


def _check_numbers(config: RunConfig) -> None:
    for key, smallest in SMALLEST.items():
        value: Any = config
        for part in key.split("."):
            value = getattr(value, part)
        if value is not None and value < smallest:
            raise ValueError(f"{key}={value}: must be at least {smallest}")
    if config.trainer.clip_norm == 0:
        raise ValueError("trainer.clip_norm=0: nothing would train; give a norm above 0, or null for no clipping")
    if getattr(config.task, "data_dir", None) == "":
        raise ValueError("task.data_dir=: give a folder, such as data/mine")
    if config.resume == "":
        raise ValueError("resume=: give auto, never or the path of a checkpoint")


def _check_combination(config: RunConfig) -> None:
    """Refuse what would be ignored or has no meaning, with the reason."""
    method = config.build_method()
    if not method.uses_topology and config.topology.name != "complete":
        averaged = "gradients" if method.averages_gradients else "models"
        raise ValueError(
            f"topology={config.topology.name}: method={method.name} averages {averaged} over all workers and knows no "
            "other topology than complete; give topology=complete, or a gossip method such as method=awc"
        )
    method.check_optimizer(config.optimizer.name, getattr(config.optimizer, "nesterov", False))
    if config.engine.name == "virtual":  # otherwise the launcher knows the world
        method.check_topology(config.built_topology, getattr(config.optimizer, "momentum", 0.0))
