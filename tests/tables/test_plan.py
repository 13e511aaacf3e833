"""What a plan says about runs before they run, and the commands that submit them."""

import csv
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from decent_core.tables.registry import planned
from scripts.collect import unfinished

from decent_core import topology
from decent_core.config.compose import choices
from decent_core.config.load import load
from decent_core.config.task_package import import_task
from decent_core.engine.flat import FlatLayout
from decent_core.engine.virtual import VirtualCommunicator
from decent_core.methods import METHODS
from decent_core.records.record import write
from decent_core.tables.costs import CountingWorkers, bytes_sent_per_step, row_elements
from decent_core.tables.jobs import jobs_text, read_jobs
from decent_core.tables.step_times import Sources
from scripts import plan, reproduce, submit
from tests.methods.test_methods import CASES
from tests.support import ROOT, engines
from tests.support.records import make_record
from tests.support.toy import ToyTask

PUBLISHED = ROOT / "results" / "published.csv"
FIGURE6 = {"AllReduce": "allreduce", "SGP": "sgp", "Decent": "awc"}
STEPS = 24


def config_of(experiment, *more, scale="paper"):
    return load([f"experiment={experiment}", f"scale={scale}", "engine=distributed", *more])


def plan_text(capsys, *arguments):
    plan.main([*arguments, "records=none"])
    return capsys.readouterr().out


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
    assert known.step_time(row) == plan.StepTime(92.0, "2 records, NVIDIA H200")
    assert replace(known, given_ms=7.0).step_time(row) == plan.StepTime(7.0, "given as step_ms")
    published = plan.StepTime(178.0, "published, GPT-2: reference point: 16 A100, method not named")
    assert replace(known, device="a100").step_time(row) == published
    none = Sources(None, [], PUBLISHED, None)
    assert none.step_time(row) == published
    for other in (
        config_of("p/gpt2/dadam_aer", scale="small"),  # another model
        config_of("p/gpt2/dadam_aer", "task.global_batch=960"),
        config_of("p/gpt2/dadam_aer", "world_size=32"),
        config_of("p/table3/dadam_aer"),
    ):
        assert none.step_time(other) == plan.StepTime(None, "not known: give step_ms")
    assert known.step_time(config_of("p/gpt2/dadam_aer", "trainer.precision=fp32")).ms == 178, "the record is another's"


def test_step_time_of_a_row_on_several_published_clusters_is_to_be_chosen():
    sources, row = Sources(None, [], PUBLISHED, None), config_of("p/table2_en_de/dadam_aer")
    said = sources.step_time(row)
    assert said.ms is None
    assert re.fullmatch("choose by device=: .*4xA100.*; .*4xA40.*", said.source)
    assert replace(sources, device="A40").step_time(row).ms == 78.9
    assert sources.step_time(config_of("p/figure6_a100/awc_aer_16")).ms == 45.8
    assert replace(sources, device="A40").step_time(config_of("p/table2_en_de/dadam_complete")).ms is None


def test_plan_lists_costs_and_writes_a_line_a_run(tmp_path, capsys):
    out = tmp_path / "jobs.txt"
    arguments = ["item=p-table2_en_de", "seeds=3", f"out={out}", f"runs={tmp_path}", "device=A40"]
    text = plan_text(capsys, *arguments)
    hours = 3 * 137_000 * 195.5 * 16 / 3.6e6
    sent = 137_000 * 2 * 15 / 16 * 4 * row_elements(config_of("p/table2_en_de/allreduce_adam")) / 1e9
    (line,) = [line.split() for line in text.splitlines() if line.startswith("  allreduce_adam ")]
    assert line == ["allreduce_adam", "3", "0", "16", "137,000", "196", f"{hours:,.0f}", f"{sent:,.0f}"]
    lines = [shlex.split(line) for line in out.read_text().splitlines()]
    assert len(lines) == 21
    assert len({line[-1] for line in lines}) == 21
    config = load(lines[0])
    assert config.engine.name == "distributed"
    assert config.out.endswith(config.config_hash[:8])


def test_finished_runs_are_left_out_and_a_changed_configuration_is_a_new_run(tmp_path, capsys):
    out = tmp_path / "jobs.txt"
    arguments = ["item=p-gpt2", "scale=tiny", "seeds=2", f"runs={tmp_path}", f"out={out}"]
    plan_text(capsys, *arguments)
    first, second, third, *_ = read_jobs(out)
    write(replace(make_record(), config_hash=first.config_hash), first.record)
    write(replace(make_record(), config_hash=second.config_hash, status="diverged"), second.record)
    write(replace(make_record(), config_hash=third.config_hash, status="failed", message="broke"), third.record)
    plan_text(capsys, *arguments)
    assert [run.folder for run in read_jobs(out)][:2] == [third.folder, read_jobs(out)[1].folder]
    assert len(read_jobs(out)) == 10
    plan_text(capsys, *arguments, "overrides=[trainer.clip_norm=2]")
    assert len(read_jobs(out)) == 12
    assert not {run.folder for run in read_jobs(out)} & {first.folder, second.folder, third.folder}


def test_unfinished_runs_are_named_with_what_is_known(tmp_path):
    runs = planned("p/gpt2/dadam_*", "tiny", 2, tmp_path).runs
    write(replace(make_record(), config_hash=runs[0].config_hash), runs[0].record)
    write(replace(make_record(), config_hash=runs[1].config_hash, status="failed", message="broke"), runs[1].record)
    write(replace(make_record(), config_hash="another"), runs[2].record)
    (tmp_path / "jobs").write_text(jobs_text(runs))
    assert unfinished(read_jobs(tmp_path / "jobs")) == [
        "line 2, p/gpt2/dadam_aer-s2: failed: broke",
        f"line 3, p/gpt2/dadam_complete-s1: no record in {runs[2].folder}",
        f"line 4, p/gpt2/dadam_complete-s2: no record in {runs[3].folder}",
    ]


@pytest.mark.parametrize("name", ["plain", "it's k=1, β2", 'a "b" \\c', "~#!$(id)"])
def test_a_folder_of_any_name_comes_back_from_a_jobs_file(tmp_path, capsys, name):
    out = tmp_path / "jobs.txt"
    plan_text(capsys, "item=p/gpt2/dadam_aer", "scale=tiny", f"runs={tmp_path / name}", f"out={out}")
    (line,), (run,) = out.read_text().splitlines(), read_jobs(out)
    config = load(shlex.split(line))
    assert Path(config.out) == run.folder == tmp_path / name / "tiny" / f"p/gpt2/dadam_aer-s1-{config.config_hash[:8]}"
    assert ("'" in line) == (name != "plain"), "quotes stand only where they are needed"
    assert run == replace(planned("p/gpt2/dadam_aer", "tiny", 1, tmp_path / name, launched=True).runs[0], name=run.name)


@pytest.mark.parametrize("name", ["two\nlines", "${x}", "a\\'b"])
def test_a_folder_that_cannot_stand_in_a_jobs_file_is_refused(tmp_path, name):
    runs = planned("p/gpt2/dadam_aer", "tiny", 1, tmp_path / name).runs
    with pytest.raises(ValueError, match=r"no folder for runs; any name works without line breaks, \$\{ and \\'"):
        jobs_text(runs)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("scale=tiny out='runs/a", "No closing quotation"),
        ("scale=tinny out=runs/a", "scale=tinny: no such scale; did you mean tiny?"),
        ("scale=tiny out=runs/a,b", "out=runs/a,b: a run has one value a key"),
        ("scale=tiny out=runs/a out=runs/b", "out: given more than once"),
        ("scale=tiny", "it names no folder; give out=FOLDER"),
        ("\xff", "\N{REPLACEMENT CHARACTER}: give each override as key=value"),
    ],
)
def test_a_mistake_in_a_jobs_file_is_one_message_that_names_the_line(tmp_path, line, said):
    jobs = tmp_path / "jobs.txt"
    jobs.write_text(f"scale=tiny out=runs/a\n{line}\n", encoding="latin-1")
    with pytest.raises(ValueError, match=re.escape(f"{jobs}, line 2: {said}")):
        read_jobs(jobs)


def test_an_open_quote_in_a_jobs_file_is_no_traceback(tmp_path):
    (tmp_path / "jobs.txt").write_text("scale=tiny out='runs/a\n")
    command = [sys.executable, "-m", "scripts.collect", f"jobs={tmp_path}/jobs.txt", f"results={tmp_path}/results"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"{tmp_path}/jobs.txt, line 1: No closing quotation\n")


def test_rows_without_runs_say_why(tmp_path, capsys):
    text = plan_text(capsys, "item=l-large_batch_8k", f"runs={tmp_path}")
    assert "Left out: optimizer.lr: no value is set for this choice; give optimizer.lr=VALUE" in text
    assert "  l/large_batch_8k: awc_dmsgd, d2, da" in text
    text = plan_text(capsys, "item=l-large_batch_8k", f"runs={tmp_path}", "overrides=[optimizer.lr=0.1]")
    assert "Left out" not in text
    assert re.search(r"all +9 ", text)
    assert "has no recipe at this scale" in plan_text(capsys, "item=l-figure2", f"runs={tmp_path}")
    with pytest.raises(ValueError, match=r"item=p-figure4: .*make figure-runtime"):
        plan.main(["item=p-figure4"])
    with pytest.raises(ValueError, match=r"item=p-figure7: .*p/table2_en_de"):
        plan.main(["item=p-figure7"])


def test_rows_that_need_a_launcher_are_left_out_where_there_is_none(tmp_path):
    found = planned("p-figure6_t4 p/table2_en_de/dadam_aer", "tiny", 1, tmp_path)
    assert [run.name for run in found.runs] == ["p/table2_en_de/dadam_aer-s1"]
    assert len(found.left_out) == 12
    assert set(found.left_out.values()) == {"engine=distributed: it needs a launcher, as make submit or torchrun is"}


def test_reproduce_at_paper_scale_shows_the_plan(tmp_path, capsys):
    assert reproduce.main(["scale=paper", "experiments=p-gpt2", f"runs={tmp_path}"]) == 0
    text = capsys.readouterr().out
    assert "allreduce_adamw" in text
    assert "make submit ITEM=p-gpt2 SCALE=paper SEEDS=1 CLUSTER=example DRY=1" in text
    assert len(read_jobs(tmp_path / "paper-jobs.txt")) == 6


def dry_run(capsys, *arguments):
    submit.main([*arguments, "dry=true"])
    return capsys.readouterr().out.splitlines()


def profile(tmp_path, old="", new=""):
    path = tmp_path / "site.env"
    path.write_text((ROOT / "slurm/cluster/example.env").read_text().replace(old, new, 1))
    return f"cluster={path}"


def test_dry_run_prints_the_commands_exactly(tmp_path, capsys):
    site = profile(tmp_path, "FOLDER=/scratch/$(id -un)/decent-bench", "FOLDER=/scratch/runs")
    planning, logs, array, collect = dry_run(capsys, site, "item=p-table2", "seeds=3", "overrides=[task.meteor=false]")
    jobs = re.search(r"out=(\S+)", planning)[1]
    assert re.fullmatch(r"/scratch/runs/jobs/p-table2-paper-[0-9a-f]{8}\.txt", jobs)
    assert planning == (
        ".venv/bin/python -m scripts.plan item=p-table2 scale=paper seeds=3 runs=/scratch/runs "
        f"'overrides=[task.meteor=false]' out={jobs}"
    )
    assert logs == "mkdir -p /scratch/runs/logs", "Slurm makes no folder for a log"
    assert array == (
        f"array0=$(sbatch --parsable --job-name=p-table2-paper --chdir={ROOT} '--output=/scratch/runs/logs/%A_%a.log' "
        "--array=1-42%4 --nodes=4 --ntasks-per-node=1 --cpus-per-task=32 --gpus-per-node=4 --time=24:00:00 "
        f"--signal=USR1@300 --partition=gpu slurm/array.sbatch {jobs} {tmp_path}/site.env 4)"
    ).replace("'--output=/scratch/runs/logs/%A_%a.log'", shlex.quote("--output=/scratch/runs/logs/%A_%a.log"))
    assert collect == (
        f"sbatch --parsable --job-name=p-table2-paper-report --chdir={ROOT} "
        f"{shlex.quote('--output=/scratch/runs/logs/%j.log')} --partition=gpu --dependency=afterany:$array0 "
        f"slurm/collect.sbatch {jobs} {tmp_path}/site.env /scratch/runs/results/p-table2-paper"
    )


def test_an_array_for_each_number_of_nodes(tmp_path, capsys):
    lines = dry_run(capsys, profile(tmp_path, "WORKERS_PER_NODE=4", "WORKERS_PER_NODE=8"), "item=p-figure6_a100")
    assert lines[0] == "# p/figure6_a100: nodes of 4 workers in its topology, of 8 on the cluster"
    shapes = [re.search(r"--array=(\S+) --nodes=(\d+)", line).groups() for line in lines if line.startswith("array")]
    assert shapes == [("1,4,7,10%4", "2"), ("2,5,8,11%4", "4"), ("3,6,9,12%4", "1")]
    assert "afterany:$array0:$array1:$array2" in lines[-1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ACCOUNT= ", "ACCUONT= ", "ACCUONT: no such variable; did you mean ACCOUNT?"),
        ("QOS=\n", "", "QOS: not set"),
        ("FOLDER=/scratch/$(id -un)", "FOLDER=/$NOWHERE", "site.env: line 16: NOWHERE: unbound variable"),
        ("GPUS_PER_NODE=4", "GPUS_PER_NODE=four", "GPUS_PER_NODE=four: must be a whole number, at least 0"),
        ("WORKERS_PER_NODE=4", "WORKERS_PER_NODE=0", "WORKERS_PER_NODE=0: must be a whole number, at least 1"),
        ("WORKERS_PER_NODE=4", "WORKERS_PER_NODE=3", "world_size=16: does not fill nodes of 3 workers"),
    ],
)
def test_a_mistake_in_a_profile_is_named(tmp_path, old, new, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        submit.main([profile(tmp_path, old, new), "item=p-gpt2", "dry=true"])


def test_a_variable_of_the_users_shell_is_no_part_of_a_profile(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("QOS", "mine")
    assert "--qos" not in " ".join(dry_run(capsys, profile(tmp_path), "item=p-gpt2"))


def test_submit_without_a_cluster_or_slurm_is_one_message(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"cluster=exmaple: no such cluster; did you mean example\?"):
        submit.main(["cluster=exmaple", "item=p-gpt2"])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="no sbatch on the path"):
        submit.main(["cluster=local", "item=p-gpt2"])


def test_commands_of_the_page_about_clusters_are_right(tmp_path, capsys):
    """Those that submit are run dry, those that train or prepare are composed; train.sbatch runs in test_launch."""
    page = (ROOT / "docs" / "cluster.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    seen = set()
    for words in [shlex.split(line) for block in blocks for line in block.splitlines()]:
        seen.add(check_command(words, tmp_path))
    assert seen == {"make setup", "cp", "prepare", "make plan", "plan", "make submit", "sbatch", "collect", "train"}


def check_command(words, tmp_path):
    if words[0] == "make" and len(words) > 2:
        shown = subprocess.run(
            ["make", "--dry-run", "--no-print-directory", "--old-file=setup", *words[1:]], cwd=ROOT, capture_output=True
        )
        arguments = shlex.split(shown.stdout.decode())[3:]  # python -m scripts....
        run_planning(words[1], [text.replace("cluster=mine", "cluster=example") for text in arguments])
        return f"make {words[1]}"
    if words[0] == "make":
        assert re.search(f"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        return " ".join(words)
    if words[0] == "cp":
        assert (ROOT / words[1]).is_file()
        return "cp"
    if words[0] == "sbatch":
        load([*words[words.index("slurm/train.sbatch") + 1 :], "engine=distributed"])
        return "sbatch"
    script, arguments = words[words.index("-m") + 1], words[words.index("-m") + 2 :]
    if script in ("scripts.train", "scripts.prepare"):
        load(arguments)
    elif script == "scripts.plan":
        run_planning("plan", [f"out={tmp_path}/jobs" if text.startswith("out=") else text for text in arguments])
    else:
        assert script == "scripts.collect"
        assert {text.partition("=")[0] for text in arguments} == {"jobs", "results"}
    return script.removeprefix("scripts.")


def run_planning(name, arguments):
    if name == "submit":
        submit.main([*(text for text in arguments if not text.startswith("dry=")), "dry=true"])
    else:
        plan.main(arguments)
