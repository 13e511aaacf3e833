"""The step log: what a run says of its steps and evaluations, beside its record. No torch."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from decent_core.records.record import finite
from decent_core.system.files import write_atomically


class MetricsLog:
    """`metrics.jsonl`: one JSON object a line, each with its `step`, appended as the run goes.

    A line that is damaged is left out, and `warn` is told its file and number.
    """

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda text: None):
        self.path, self.warn = path, warn

    def append(self, values: Mapping[str, Any]) -> None:
        """Append one line; `values` holds `step`."""
        assert "step" in values, f"a line of {self.path.name} needs its step, got {sorted(values)}"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a") as stream:
            stream.write(json.dumps(finite(dict(values)), allow_nan=False) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """All whole lines that can be read; one that a killed process left half written is left out in silence."""
        if not self.path.exists():
            return []
        *whole, _half = self.path.read_bytes().split(b"\n")
        parsed = [self._parse(line, number) for number, line in enumerate(whole, 1)]
        return [values for values in parsed if values is not None]

    def _parse(self, line: bytes, number: int) -> dict[str, Any] | None:
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = f"no JSON ({type(error).__name__})"
        else:
            if isinstance(values, dict) and type(values.get("step")) is int:
                return values
            problem = "no JSON object with a whole number as its step"
        self.warn(f"{self.path}, line {number}: left out: {problem}")
        return None

    def truncate_after(self, step: int, finished: bool = False) -> None:
        """Drop the lines of later steps: a resumed run writes them again, and steps never go backwards.

        With `finished` all training is done by then, and only the final evaluation is made again: its lines go too.
        """
        if self.path.exists():
            again = {"eval"} if finished else set()
            kept = [
                line for line in self.lines()
                if line["step"] < step or (line["step"] == step and line.get("kind") not in again)
            ]  # fmt: skip
            write_atomically(self.path, "".join(json.dumps(line) + "\n" for line in kept))
