"""What the W&B dashboard shows: plain data, names as in `metrics.jsonl` and in a record."""

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


#: what each section shows, and how to read it; a task logs some of the metrics, and shows up where it does
SECTIONS: dict[str, tuple[str, tuple[Curves | Finals, ...]]] = {
    "Loss": (
        "Against steps, rows differ by what their method does to learning; against training seconds, also by what a "
        "step takes. Validation is of the average of all workers' models. With engine=virtual the seconds compare "
        "arithmetic: nothing crosses a network.",
        (
            Curves("Validation loss by step", ("val_loss",)),
            Curves("Validation loss by training seconds", ("val_loss",), x="train_seconds"),
            Curves("Training loss by step", ("train_loss",)),
            Curves("Training loss by training seconds", ("train_loss",), x="train_seconds"),
            Curves("Top-1 accuracy by step", ("top1",)),
            Curves("Squared distance to the optimum, log10", ("log10_squared_distance",)),
        ),
    ),
    "Metrics": (
        "Final values: of the averaged model, and under local_ the mean over the workers' own models.",
        (
            Finals("Validation loss", ("val_loss", "local_val_loss")),
            Finals("BLEU and METEOR", ("bleu", "meteor")),
            Finals("Top-1 accuracy", ("top1", "local_top1")),
            Finals(
                "Squared distance to the optimum, log10", ("log10_squared_distance", "local_log10_squared_distance")
            ),
        ),
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
#: columns of the table of runs, values of each run's record
COLUMNS = (
    "status", "task", "method", "topology", "optimizer", "scale", "seed", "steps", "val_loss", "bleu", "top1",
    "log10_squared_distance", "consensus_distance", "train_seconds", "step_ms_p50", "wait_ms_p50",
    "bytes_sent_per_step",
)  # fmt: skip
