import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from decent_core.config.choices import CONF, FILE_GROUPS, choices, registry, scales_of
from decent_core.config.compose import MissingValue, NotAtThisScale, compose
from decent_core.config.help import show_help
from decent_core.config.load import load
from decent_core.methods import METHODS
from decent_core.records.identity import WITHOUT_EFFECT, config_hash
from decent_core.topology import names as topology_names

FILES = sorted(CONF.rglob("*.yaml"))
GPT2_ROWS = [name for name in choices("experiment") if name.startswith("p/gpt2/")]


def experiment(row, scale="paper"):
    return load([f"experiment=p/gpt2/{row}", f"scale={scale}"])


def differing(one, other):
    """The parts in which two configurations differ."""
    a, b = one.as_dict(), other.as_dict()
    return {key for key in a if a[key] != b[key]} - {"experiment"}


def test_config_of_the_contracts_command_line():
    given = (
        "task=gpt2 optimizer=accum_adamw method=awc topology=aer engine=virtual world_size=8 local_size=4 scale=tiny"
    )
    config = load([*given.split(), "seed=1"])
    chosen = (config.task.name, config.optimizer.name, config.method.name, config.topology.name, config.engine.name)
    assert chosen == ("gpt2", "accum_adamw", "awc", "aer", "virtual")
    assert (config.world_size, config.local_size, config.scale, config.seed) == (8, 4, "tiny", 1)
    assert config.overrides == [*given.split(), "seed=1"]
    assert config.experiment is None


def test_config_overrides_of_every_run():
    config = load(["out=some/folder", "resume=never", "trainer.steps=7", "trainer.eval_every=3", "trainer.log_every=2"])
    assert (config.out, config.resume) == ("some/folder", "never")
    assert (config.trainer.steps, config.trainer.eval_every, config.trainer.log_every) == (7, 3, 2)
    assert load(["local_size=[5,3]", "method=awc"]).local_size == [5, 3]
    assert load([]).local_size == 1, "virtual workers have no launcher to ask"
    assert load(["engine=distributed"]).local_size is None
    assert config.explicit("trainer.steps")
    assert not config.explicit("world_size")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_conf_files_open_with_a_command_that_uses_them(path):
    lines = [line for line in path.read_text().splitlines() if line != "# @package _global_"]
    assert lines[0].startswith("# ")
    words = shlex.split(lines[0][2:])
    group, *name = path.relative_to(CONF).with_suffix("").parts
    module, *overrides = words[words.index("-m") + 1 :]
    if group == "table":
        assert module == "scripts.tables"
        assert f"table={'/'.join(name)}" in overrides or overrides == ["list"]
        return
    assert module == "scripts.train"
    distributed = [] if "topology=file" not in overrides else ["engine=distributed"]  # its file is read later then
    load([*overrides, *distributed])
    _, chosen = compose(overrides)
    if group in FILE_GROUPS:
        assert [chosen[group]] == name
    if group == "task":
        assert name in ([chosen["task"], chosen["scale"]], [chosen["task"], "base"])


@pytest.mark.parametrize("group", ["method", "topology"])
def test_conf_shows_the_options_of_methods_and_topologies_as_the_code_has_them(group):
    shown = {path.stem: yaml.safe_load(path.read_text()) for path in (CONF / group).glob("*.yaml")}
    assert shown == registry(group)


@pytest.mark.parametrize("name", choices("experiment"))
def test_rows_of_tables_compose_at_every_scale_of_their_task(name):
    scales = []
    for scale in choices("scale"):
        try:
            config = load([f"experiment={name}", f"scale={scale}"])
        except NotAtThisScale:
            continue
        except MissingValue:
            assert (name[:2], scale) == ("l/", "paper"), "[L]'s rates alone could not be established"
            config = load([f"experiment={name}", f"scale={scale}", "optimizer.lr=1"])
        scales.append(scale)
        assert (config.experiment, config.scale) == (name, scale)
    assert "tiny" in scales


def test_a_row_is_a_row_of_its_own_task_alone():
    with pytest.raises(ValueError, match=r"task=regression: experiment=p/gpt2/dadam_aer is a row of task=gpt2"):
        load(["experiment=p/gpt2/dadam_aer", "task=regression"])


def test_an_optimizer_without_a_learning_rate_is_named():
    with pytest.raises(MissingValue, match=r"^optimizer.lr: task=wmt14_en_de .* optimizer=accum_adamw at scale=tiny"):
        load(["task=wmt14_en_de", "optimizer=accum_adamw"])
    assert load(["task=wmt14_en_de", "optimizer=accum_adamw", "optimizer.lr=0.001"]).optimizer.lr == 0.001


def test_later_sources_win_file_optimizer_batch_row_key():
    own = load(["task=imagenet"])
    assert (own.optimizer.lr, own.task.global_batch, own.trainer.log_every) == (0.005, 128, 10)
    batch = load(["task=imagenet", "optimizer=lars", "batch=8k"])
    assert (batch.optimizer.lr, batch.task.global_batch, batch.trainer.log_every) == (10.0, 256, 5)
    row = load(["experiment=l/decentlam/d2", "batch=8k"])
    assert (row.trainer.eval_every, row.method.options["damped"]) == (0, True)
    assert load(["experiment=l/decentlam/d2", "batch=8k", "trainer.eval_every=7"]).trainer.eval_every == 7
    assert load(["experiment=p/table3/dadam_aer", "scale=paper"]).local_size == 8, "at_scale comes after the row"


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_chosen_from_the_registry(name):
    optimizer = (METHODS[name].optimizers or ("adamw",))[0]
    assert (
        load([f"method={name}", f"optimizer={optimizer}", "optimizer.lr=1", "engine=distributed"]).method.name == name
    )


@pytest.mark.parametrize("name", topology_names())
def test_topologies_are_chosen_from_the_registry(name):
    path = ["topology.path=PATH"] if name == "file" else []  # read when the world is known
    assert load([f"topology={name}", "method=awc", "engine=distributed", *path]).topology.name == name


def test_topology_options_are_keys_of_their_topology():
    assert load(["method=awc", "topology=base_k", "topology.k=2"]).topology.options["k"] == 2
    assert "k" not in load([]).topology.options


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("optmizer=adamw", "optmizer: no such key; did you mean optimizer?"),
        ("optimizer.lrr=1", "optimizer.lrr: no such key; did you mean lr?"),
        ("trainer.step=1", "trainer.step: no such key; did you mean steps?"),
        ("method=awc topology=base_k topology.kk=1", "topology.kk: no such key; did you mean k?"),
        ("topology.k=1", "topology.k: no such key"),
        ("hydra.run.dir=x", "hydra: no such key"),
        ("with_optimizer.adamw=1", "with_optimizer: no such key"),
        ("scale=tinny", "scale=tinny: no such scale; did you mean tiny?"),
        ("method=awcc", "method=awcc: no such method; did you mean awc?"),
        ("task=gpt3", "task=gpt3: no such task; did you mean gpt2?"),
        (
            "experiment=p/gpt2/allreduce_adam",
            "experiment=p/gpt2/allreduce_adam: no such experiment; did you mean p/gpt2/all",
        ),
        ("trainer.steps=many", 'trainer.steps="many": input should be a valid integer'),
        ("trainer.steps=true", "trainer.steps=true: input should be a valid integer"),
        ("trainer.steps=0", "trainer.steps=0: must be at least 1"),
        ("trainer.precision=fp8", "trainer.precision=\"fp8\": input should be 'fp32', 'fp64', 'bf16' or 'fp16'"),
        ("optimizer.lr=null", "optimizer.lr=null: input should be a valid number"),
        ("optimizer.lr=-1", "optimizer.lr: a finite number >= 0 is needed, -1.0 was given"),
        ("optimizer.betas=[0.9]", "optimizer.betas"),
        ("optimizer.lr=1,2", "optimizer.lr=1,2: a run has one value a key"),
        ("seed=1 seed=2", "seed: given more than once"),
        ("seed", "seed: give each override as key=value"),
        ("+extra=1", "+extra=1: give each override as key=value"),
        ("~seed=1", "~seed=1: give each override as key=value"),
        ("seed.x=1", "seed.x: seed holds a value, not keys"),
        ("trainer={steps:3}", "trainer={steps:3}: give one key at a time"),
        ("out=[", "out=["),
        ("resume=", "resume=: give auto"),
        ("trainer.clip_norm=nan", "trainer.clip_norm=nan: must be finite"),
        ("trainer.clip_norm=0", "trainer.clip_norm=0: nothing would train"),
        ("target=nan", "target=nan: must be finite"),
        ("optimizer.betas=[0.9,inf]", "optimizer.betas=[0.9, inf]: must be finite"),
        ("method=diloco method.outer_lr=inf", "method.outer_lr=inf: must be finite"),
        ("task=imagenet task.mean=[nan]", "task.mean=[nan]: must be finite"),
        ("task=imagenet task.std=[nan]", "task.std=[nan]: must be finite"),
        ("task=imagenet task.dirichlet_alpha=inf", "task.dirichlet_alpha=inf: must be finite"),
        ("task=regression task.noise=nan", "task.noise=nan: must be finite"),
        ("task=wmt14_en_de task.length_penalty=inf", "task.length_penalty=inf: must be finite"),
        ("task.data_dir=''", "task.data_dir=: give a folder"),
        ("schedule=multistep", "schedule.milestones: no value is set for this choice"),
        ("schedule=constant schedule.warmup_steps=3", "schedule.warmup_steps: no such key"),
        ("task.width=97", "task.width=97 must be a multiple of task.heads=4"),
        ("world_size=0", "world_size=0: must be at least 1"),
        ("local_size=[3,2]", "topology complete with world_size=8, local_size=[3, 2]"),
        ("topology=aer", "topology=aer: method=allreduce averages"),
        ("method=awc topology=aer world_size=6 local_size=2", "topology aer with world_size=6"),
    ],
)
def test_config_refuses_and_names_what_is_wrong(overrides, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load(overrides.split())
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_train_fails_at_once_with_status_2_and_one_message(tmp_path):
    mistake = "optimizer.lrr=1"
    command = [sys.executable, "-m", "scripts.train", "task=gpt2", mistake, f"out={tmp_path / 'run'}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CONF.parent, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert mistake.partition("=")[0] in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_missing_scale_names_those_that_exist():
    assert scales_of("regression") == ["smoke", "tiny"]
    with pytest.raises(NotAtThisScale, match="scale=small: task=regression has no such scale; it has smoke, tiny"):
        load(["task=regression", "scale=small"])
    with pytest.raises(NotAtThisScale, match=r"batch=8k: .* at scale=smoke; it has at scale=paper, small, tiny"):
        load(["task=imagenet", "scale=smoke", "batch=8k"])


def test_config_hash_is_that_of_the_record_and_of_the_result():
    config = load(["experiment=p/gpt2/dadam_aer"])
    assert config.config_hash == config_hash(config.as_dict())
    for same in ("out=x", "resume=never", "trainer.threads=2", "trainer.checkpoint_every=5", "trainer.log_every=3"):
        assert load(["experiment=p/gpt2/dadam_aer", same]).config_hash == config.config_hash
    for other in ("seed=2", "optimizer.lr=1", "world_size=16", "topology=complete", "trainer.steps=3"):
        assert load(["experiment=p/gpt2/dadam_aer", other]).config_hash != config.config_hash


def test_result_keys_lack_the_keys_without_effect():
    kept = load([]).result_keys()
    dotted = {f"{part}.{key}" for part in kept if isinstance(kept[part], dict) for key in kept[part]} | set(kept)
    assert not dotted & WITHOUT_EFFECT
    assert "trainer.steps" in dotted


def test_gpt2_rows_are_the_published_ones_and_those_that_separate_them():
    assert len(GPT2_ROWS) == 6
    published, gossip = experiment("allreduce_adamw"), experiment("accum_adamw_aer")
    assert (published.method.name, gossip.method.name, gossip.topology.name) == ("allreduce", "awc", "aer")
    adamw = {"lr": 6e-4, "betas": (0.9, 0.95), "weight_decay": 0.1}
    accum = {"lr": 6e-4, "betas": (0.9, 0.98), "weight_decay": 0.1, "window": 8, "eps_inside": False}
    assert adamw.items() <= asdict(published.optimizer).items()
    assert accum.items() <= asdict(gossip.optimizer).items()
    for config in (published, gossip):
        assert (config.world_size, config.local_size) == (16, 4)
        assert (config.trainer.steps, config.trainer.clip_norm) == (600_000, 1.0)
        assert (config.task.global_batch, config.task.context, config.task.vocabulary) == (480, 1024, 50_304)
        assert (config.task.layers, config.task.heads, config.task.width) == (12, 12, 768)
        assert (config.task.bias, config.task.dropout) == (False, 0.0)
        assert (config.schedule.name, config.schedule.warmup_steps) == ("cosine", 2000)
        assert config.optimizer.lr * config.schedule.final_fraction == pytest.approx(6e-5)


@pytest.mark.parametrize(
    ("one", "other", "parts"),
    [
        ("accum_adamw_aer", "accum_adamw_complete", {"topology"}),
        ("dadam_aer", "dadam_complete", {"topology"}),
        ("accum_adamw_aer", "dadam_aer", {"optimizer"}),
        ("allreduce_adamw", "allreduce_accum_adamw", {"optimizer"}),
        ("allreduce_adamw", "dadam_complete", {"method"}),
        ("allreduce_accum_adamw", "accum_adamw_complete", {"method"}),
    ],
)
@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
def test_gpt2_rows_change_one_thing_at_a_time(one, other, parts, scale):
    assert differing(experiment(one, scale), experiment(other, scale)) == parts


def test_help_and_print_config_show_and_run_nothing(capsys):
    assert show_help(["--help"], "Usage.")
    shown = capsys.readouterr().out
    assert shown.startswith("Usage.")
    for text in ("accum_adamw", "p/gpt2/dadam_aer", "one_peer_hypercube", "trainer.steps=", "local_size="):
        assert text in shown
    assert show_help(["--print-config", "experiment=p/gpt2/dadam_aer"], "")
    assert yaml.safe_load(capsys.readouterr().out) == load(["experiment=p/gpt2/dadam_aer"]).as_dict()
    assert not show_help(["seed=1"], "")


def test_compose_leaves_no_folder_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load([])
    assert list(Path().iterdir()) == []


def test_readme_training_commands_compose():
    text = (CONF.parent / "README.md").read_text()
    commands = [line.partition("-m scripts.train ")[2] for line in text.splitlines() if "-m scripts.train " in line]
    commands = [command for command in commands if "--help" not in command]
    assert len(commands) >= 3
    for command in commands:
        load(shlex.split(command))
