"""What the W&B dashboard shows: plain data, names as in `metrics.jsonl` and in a record."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Curves:
    """Metrics against steps, or against another metric."""

    title: str
    metrics: tuple[str, ...]
    x: str = "Step"


@dataclass(frozen=True)
class Finals:
    """Final values, a bar for each group of runs."""

    title: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class TaskPlots:
    """What a task's package adds to the dashboard, as its `PLOTS`: plots of its metrics, and columns for runs."""

    curves: tuple[Curves, ...]
    finals: tuple[Finals, ...]
    columns: tuple[str, ...]


VALIDATION_LOSS = TaskPlots(  # of the many tasks that have one
    curves=(
        Curves("Validation loss by step", ("val_loss",)),
        Curves("Validation loss by training seconds", ("val_loss",), x="train_seconds"),
    ),
    finals=(Finals("Validation loss", ("val_loss", "local_val_loss")),),
    columns=("val_loss",),
)
#: section -> how to read it, and what it shows for every task
SECTIONS: dict[str, tuple[str, tuple[Curves | Finals, ...]]] = {
    "Loss": (
        "Against steps, rows differ by what their method does to learning; against training seconds, also by what a "
        "step takes. Validation is of the average of all workers' models. With engine=virtual the seconds compare "
        "arithmetic: nothing crosses a network.",
        (
            Curves("Training loss by step", ("train_loss",)),
            Curves("Training loss by training seconds", ("train_loss",), x="train_seconds"),
        ),
    ),
    "Metrics": (
        "Final values: of the averaged model, and under local_ the mean over the workers' own models.",
        (),
    ),
    "Consensus": (
        "Root mean square of the workers' distances to their mean; zero for All-Reduce.",
        (
            Curves("Consensus distance by step", ("consensus_distance",)),
            Curves("Learning rate by step", ("lr",)),
        ),
    ),
    "Time and bytes": (
        "Of training steps alone: median of each log interval, on the slowest rank. Waiting is the part of a step in "
        "which computation stood still for an exchange. Bytes are a worker's, in the mean; All-Reduce is counted as a "
        "ring.",
        (
            Curves("Milliseconds a step", ("step_ms",)),
            Curves("Milliseconds of waiting a step", ("wait_ms",)),
            Curves("Samples a second", ("samples_per_second",)),
            Finals("Bytes sent a step", ("bytes_sent_per_step",)),
        ),
    ),
}
#: columns of the table of runs, values of each run's record; those of tasks come between
COLUMNS_BEFORE = ("status", "task", "method", "topology", "optimizer", "scale", "seed", "steps")
COLUMNS_AFTER = ("consensus_distance", "train_seconds", "step_ms_p50", "wait_ms_p50", "bytes_sent_per_step")


def sections(tasks: Sequence[TaskPlots]) -> dict[str, tuple[str, tuple[Curves | Finals, ...]]]:
    """Each section's text and plots; what several tasks have in common is there once."""
    own: dict[str, list[Curves | Finals]] = {
        "Loss": [plot for task in tasks for plot in task.curves],
        "Metrics": [plot for task in tasks for plot in task.finals],
    }
    return {name: (text, _once([*own.get(name, []), *plots])) for name, (text, plots) in SECTIONS.items()}


def columns(tasks: Sequence[TaskPlots]) -> list[str]:
    """The columns of the table of runs."""
    return [*COLUMNS_BEFORE, *dict.fromkeys(name for task in tasks for name in task.columns), *COLUMNS_AFTER]


def _once(plots: Iterable[Curves | Finals]) -> tuple[Curves | Finals, ...]:
    return tuple(dict.fromkeys(plots))
