"""Made-up records, marked `simulated`, for tests of tables and figures."""

from dataclasses import replace
from typing import Any

from decent_core.records.identity import config_hash
from decent_core.records.record import Record

CHOICES = {
    "allreduce_adamw": ("allreduce", "adamw", "complete"),
    "allreduce_accum_adamw": ("allreduce", "accum_adamw", "complete"),
    "accum_adamw_aer": ("awc", "accum_adamw", "aer"),
    "dadam_aer": ("awc", "adamw", "aer"),
}


def make_record(row: str = "allreduce_adamw", seed: int = 1, loss: float = 5.0, **changes: Any) -> Record:
    """A finished run of an experiment with a final loss; `changes` replace fields."""
    method, optimizer, topology = CHOICES[row]
    settings = {"name": optimizer, "lr": 6e-4} | ({"window": 8} if "accum" in optimizer else {})
    config = {
        "seed": seed, "world_size": 8, "local_size": 4, "out": None, "resume": "auto", "scale": "tiny",
        "experiment": f"p/gpt2/{row}", "task": {"name": "gpt2"}, "optimizer": settings, "schedule": {"name": "cosine"},
        "method": {"name": method}, "topology": {"name": topology}, "engine": {"name": "virtual"},
        "trainer": {"steps": 40, "threads": None},
    }  # fmt: skip
    curve = [
        {"step": step, "seconds": 0.1 * step, "values": {"val_loss": loss + 2 / step}} for step in range(10, 41, 10)
    ]
    record = Record(
        run_id=f"gpt2-{row}-s{seed}", source="simulated", status="ok", message=None, experiment=f"p/gpt2/{row}",
        config_hash="", task="gpt2", optimizer=optimizer, method=method, topology=topology, engine="virtual",
        scale="tiny", world_size=8, local_size=4, seed=seed,
        overrides=[f"experiment=p/gpt2/{row}", "scale=tiny", f"seed={seed}"], config=config, git_commit="c0ffee" * 6,
        git_dirty=False, versions={"torch": "2.14.1"}, device="none", started_at="2026-01-01T00:00:00+00:00", steps=40,
        samples=640, train_seconds=4.0, eval_seconds=1.0, step_ms_p50=100.0, step_ms_p95=110.0, wait_ms_p50=None,
        bytes_sent_per_step=2.0 * 2**20, peak_gib=0.5, metrics={"val_loss": loss, "local_val_loss": loss + 0.01},
        primary_metric="val_loss", best={}, consensus_distance=0.25, curve=curve, parameters_sha256=None, notes={},
        outputs=[],
    )  # fmt: skip
    record = replace(record, **changes)
    return replace(record, config_hash=config_hash(record.config))
