"""What a run costs before it has run: parameters, bytes and step times, against the engine and what was published."""

import csv
import re
from dataclasses import replace

import pytest
import torch

from decent_core import topology
from decent_core.config.choices import choices
from decent_core.config.load import load
from decent_core.config.task_package import import_task
from decent_core.engine.flat import FlatLayout
from decent_core.engine.virtual import VirtualCommunicator
from decent_core.methods import METHODS
from decent_core.tables.costs import CountingWorkers, bytes_sent_per_step, row_elements
from decent_core.tables.step_times import Sources, StepTime
from tests.methods.test_methods import CASES
from tests.support import ROOT, engines
from tests.support.records import make_record
from tests.support.toy import ToyTask

PUBLISHED = ROOT / "results" / "published.csv"
FIGURE6 = {"AllReduce": "allreduce", "SGP": "sgp", "Decent": "awc"}
STEPS = 24


def config_of(experiment, *more, scale="paper"):
    return load([f"experiment={experiment}", f"scale={scale}", "engine=distributed", *more])


@pytest.mark.parametrize("name", METHODS)
def test_bytes_are_those_that_the_engine_counts(name):
    three = {"allreduce": ({}, "adam", "complete"), "awc": ({}, "adam", "aer"), "atc": ({}, "sgd", "ring")}
    options, optimizer, graph_name = (CASES | three)[name]
    graph = topology.build(graph_name, 4)
    task = ToyTask(seed=1, world_size=4)
    engine = engines.build_engine(VirtualCommunicator(4), task, name, optimizer, graph, spread=0, options=options)
    counted = 0.0
    for _ in range(STEPS):
        engines.train_step(engine, task)
        counted += engine.bytes_sent
    workers, method = CountingWorkers(graph, engine.x.shape[1], torch.float64), METHODS[name](**options)
    method.start(workers)
    for _ in range(STEPS):
        workers.take_step(method)
    assert workers.bytes_sent == pytest.approx(counted, rel=1e-12)
    assert counted > 0


@pytest.mark.parametrize("task", ["gpt2", "imagenet", "regression"])
def test_model_size_is_that_of_the_models_row(task):
    config = load([f"task={task}", "scale=smoke"])
    model = import_task(config.task_package).build(config.task, 1, config.world_size).build_model()
    assert row_elements(config) == FlatLayout(model).size


def test_model_sizes_of_the_published_recipes():
    """By hand: each layer's matrices and biases, norms, one tied embedding."""
    attention, norm = 4 * (512 * 512 + 512), 2 * 512
    feed_forward = 512 * 2048 + 2048 + 2048 * 512 + 512
    base = 37_120 * 512 + 6 * (attention + feed_forward + 2 * norm) + 6 * (2 * attention + feed_forward + 3 * norm)
    assert row_elements(config_of("p/table2_en_de/dadam_aer")) == base
    gpt2 = (50_304 + 1024) * 768 + 12 * (12 * 768 * 768 + 2 * 768) + 768
    assert row_elements(config_of("p/gpt2/dadam_aer")) == gpt2
    resnet50 = 25_557_032  # as torchvision documents it
    assert 0 <= row_elements(config_of("p/table3/dadam_aer")) - resnet50 < 16
    assert row_elements(config_of("p/table3/dadam_aer", "task.dataset=my-tree")) is None, "its classes are in the data"


def test_bytes_of_published_rows():
    """A ring all-reduce over 16 sends 2 x 15 / 16 of the row in float32."""
    config = config_of("p/gpt2/allreduce_adamw")
    assert bytes_sent_per_step(config, 1000) == 2 * 15 / 16 * 4000
    config = config_of("p/gpt2/dadam_aer")
    rounds = [topology.build("aer", 16, 4).round(step).bytes_sent(4000).mean() for step in range(600)]
    assert bytes_sent_per_step(config, 1000) == pytest.approx(sum(rounds) / 600)


def test_every_published_step_time_has_its_experiment():
    lines = [line for line in csv.DictReader(PUBLISHED.read_text().splitlines()) if line["item"] == "Figure 6"]
    for line in lines:
        config = load([f"experiment={line['experiment']}", "scale=paper"])
        found = (config.method.name, config.topology.name, config.world_size, config.local_size)
        wanted = (FIGURE6[line["name"]], line["topology"], int(line["world_size"]), int(line["local_size"]))
        assert found == wanted
        assert (config.engine.name, config.trainer.eval_every, config.trainer.steps) == ("distributed", 0, 300)
    rows = {name for name in choices("experiment") if name.startswith("p/figure6")}
    assert rows == {line["experiment"] for line in lines}
    assert len(rows) == 36


def test_step_time_is_given_or_measured_or_published_and_never_guessed():
    row = config_of("p/gpt2/dadam_aer")
    record = replace(
        make_record(), config=config_of("p/gpt2/dadam_aer", "seed=5", "trainer.steps=100").as_dict(),
        engine="distributed", device="NVIDIA H200", step_ms_p50=90.0,
    )  # fmt: skip
    known = Sources(None, [record, replace(record, step_ms_p50=94.0)], PUBLISHED, None)
    assert known.step_time(row) == StepTime(92.0, "2 records, NVIDIA H200")
    assert replace(known, given_ms=7.0).step_time(row) == StepTime(7.0, "given as step_ms")
    published = StepTime(178.0, "published, GPT-2: reference point: 16 A100, method not named")
    assert replace(known, device="a100").step_time(row) == published
    none = Sources(None, [], PUBLISHED, None)
    assert none.step_time(row) == published
    for other in (
        config_of("p/gpt2/dadam_aer", scale="small"),  # another model
        config_of("p/gpt2/dadam_aer", "task.global_batch=960"),
        config_of("p/gpt2/dadam_aer", "world_size=32"),
        config_of("p/table3/dadam_aer"),
    ):
        assert none.step_time(other) == StepTime(None, "not known: give step_ms")
    assert known.step_time(config_of("p/gpt2/dadam_aer", "trainer.precision=fp32")).ms == 178, "the record is another's"


def test_step_time_of_a_row_on_several_published_clusters_is_to_be_chosen():
    sources, row = Sources(None, [], PUBLISHED, None), config_of("p/table2_en_de/dadam_aer")
    said = sources.step_time(row)
    assert said.ms is None
    assert re.fullmatch("choose by device=: .*4xA100.*; .*4xA40.*", said.source)
    assert replace(sources, device="A40").step_time(row).ms == 78.9
    assert sources.step_time(config_of("p/figure6_a100/awc_aer_16")).ms == 45.8
    assert replace(sources, device="A40").step_time(config_of("p/table2_en_de/dadam_complete")).ms is None
