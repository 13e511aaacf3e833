"""Predict the time of an iteration by the runtime model of [P]: one JSON object; or draw the model.

    python -m scripts.runtime world_size=32 buckets=7 update=0.364 gamma=4 omega=0.6 variance=0.00695 topology=aer
    python -m scripts.runtime figures folder=results/local

Times are T N / b: 1 is the forward pass of a worker's share of a bucket. gamma is an All-Reduce of one bucket in the
same unit, omega gamma a gossip round of one bucket, `update` [P]'s theta (a bucket's update takes theta/N by
convention A, theta by convention B). Computing times are multiplied by draws from a normal of this `variance`, cut to
0.5 .. 1.5; `noise` says what one of them covers: a pass, a bucket or an iteration.

`figures` draws the model (runtime_model.png, the panels of [P]'s Figure 4), and fits it to the step times published in
[P]'s Figure 6 (runtime_scaling.png and .md).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decent_core.config.command_line import choose_verb, options, run_main
from decent_core.records.provenance import ROOT
from decent_core.runtime.paper_model import PaperModel, predict_speedup


@dataclass(frozen=True)
class Figures:
    """Where the figures go, and how many iterations a point is simulated for (after 100 of warm-up)."""

    folder: str = "results/local"
    iterations: int = 300

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError(f"iterations={self.iterations}: must be at least 1")


def main(arguments: Sequence[str]) -> None:
    """Print the prediction for the `key=value` arguments, or draw."""
    verb, rest = choose_verb(arguments, ("predict", "figures"))
    if verb == "predict":
        print(json.dumps(predict_speedup(options(PaperModel, rest, __doc__ or ""))))
        return
    given = options(Figures, rest, __doc__ or "")
    from decent_core.report import runtime_figure, scaling_figure  # matplotlib takes a second

    print(runtime_figure.draw(Path(given.folder) / "runtime_model.png", given.iterations))
    print(scaling_figure.write(ROOT / "results" / "published.csv", Path(given.folder) / "runtime_scaling.png"))


if __name__ == "__main__":
    run_main(main)
