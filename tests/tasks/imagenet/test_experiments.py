"""[P]'s Table 3 and its separating rows as configurations, and a run on image files from the command line."""

import csv
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from decent_core.config.compose import choices
from decent_core.config.load import load
from decent_core.records.archive import unpack
from scripts.train import main
from tests.support.images import DECODERS, write_tree

ROWS = [name for name in choices("experiment") if name.startswith("p/table3/")]


def row(name, scale="paper"):
    return load([f"experiment={name}", f"scale={scale}"])


NAMES = {"AllReduce": ("allreduce", "adam"), "DAdam": ("awc", "adam"), "AccumAdam": ("awc", "accum_adam")}


def test_every_published_row_has_an_experiment_of_its_size():
    with open("results/published.csv") as file:
        lines = [line for line in csv.DictReader(file) if line["item"] == "Table 3"]
    for line in lines:
        config = row(line["experiment"])
        assert (config.method.name, config.optimizer.name) == NAMES[line["name"]]
        found = (config.topology.name, str(config.world_size), str(config.local_size), config.task.model)
        assert found == (line["topology"], line["world_size"], line["local_size"], line["model"])
    assert set(ROWS) - {line["experiment"] for line in lines} == {"p/table3/allreduce_accum_adam"}


def test_paper_scale_is_the_published_recipe():
    config = row("p/table3/allreduce_adam")
    assert asdict(config.optimizer) == {
        "name": "adam", "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1 / 32768
    }  # fmt: skip
    task = config.task
    assert (task.model, task.global_batch, task.label_smoothing) == ("resnet50", 1024, 0.1)
    assert (task.train_size, task.validation_resize, task.validation_size) == (176, 256, 224)
    assert config.trainer.steps == 112_590
    assert config.trainer.channels_last
    assert config.trainer.precision == "fp16"
    for name, peak in (("p/table3/allreduce_adam", 1e-3), ("p/table3/accum_adam_aer", 1.5e-3)):
        config = row(name)
        rates = [config.optimizer.lr * config.schedule.factor(step, 112_590) for step in (0, 6255, 112_590)]
        assert rates == pytest.approx([0.01 * peak, peak, 1e-5], rel=1e-6)
    assert row("p/table3/accum_adam_aer").optimizer.window == 8


@pytest.mark.parametrize("scale", ["smoke", "tiny", "small", "paper"])
def test_rows_differ_in_method_optimizer_and_topology_only(scale):
    configs = [row(name, scale) for name in ROWS]
    assert len({json.dumps(asdict(config.task)) for config in configs}) == 1
    assert len({json.dumps(asdict(config.trainer)) for config in configs}) == 1
    assert {config.optimizer.weight_decay for config in configs} == {1 / 32768}
    nodes = {(config.world_size, config.local_size) for config in configs}
    assert nodes == ({(32, 8)} if scale == "paper" else {(8, 4)})
    assert len({(c.method.name, c.optimizer.name, c.topology.name) for c in configs}) == len(configs) == 6


def test_rows_are_still_those_of_their_committed_records():
    """A record is found by its configuration's hash, in which a key that came later has no part until it is used."""
    records = [run.record for run in unpack(Path("results/p/table3")) if run.record.scale == "tiny"]
    assert {record.experiment for record in records} == set(ROWS)
    for record in records:
        assert row(record.experiment, "tiny").config_hash == record.config_hash
    files = ["task=imagenet", "scale=paper", "task.dataset=some/folder"]
    for later in ("task.decoder=dali", "task.norm=group"):
        assert load([*files, later]).config_hash != load(files).config_hash


def test_gossip_adam_differs_from_all_reduce_in_the_exchange_alone():
    for scale in ("tiny", "paper"):
        gossip, baseline = row("p/table3/dadam_complete", scale), row("p/table3/allreduce_adam", scale)
        assert gossip.optimizer == baseline.optimizer
        assert gossip.schedule == baseline.schedule
        accum = [row(f"p/table3/{name}", scale) for name in ("allreduce_accum_adam", "accum_adam_complete")]
        assert accum[0].optimizer == accum[1].optimizer


@pytest.mark.parametrize("decoder", DECODERS)
def test_training_on_image_files_from_the_command_line(tmp_path, capsys, caplog, decoder):
    tree = write_tree(tmp_path / "tree")
    (tree / "train/class_2/004.JPEG").write_bytes(b"broken")
    files = {
        "dataset": tree, "train_images": "null", "validation_images": "null", "mean": "[0.5,0.4,0.3]",
        "std": "[0.2,0.2,0.2]", "train_size": 24, "padding": 0, "validation_resize": 32, "validation_size": 28,
        "global_batch": 8, "validation_batch": 4, "decode_processes": 1, "decoder": decoder,
    }  # fmt: skip
    overrides = [f"task.{key}={value}" for key, value in files.items()]
    run = ["method=awc", "topology=ring", "world_size=4", "trainer.steps=6", "trainer.threads=1", f"out={tmp_path}/run"]
    assert main(["task=imagenet", "scale=smoke", *overrides, *run]) == 0
    record = json.loads(Path(capsys.readouterr().out.splitlines()[-1]).read_text())
    assert record["status"] == "ok"
    assert record["primary_metric"] == "top1"
    assert {"val_loss", "top1", "top5", "local_top1"} <= set(record["metrics"])
    assert any("class_2/004.JPEG: not an image" in message.getMessage() for message in caplog.records)
