"""A run that was killed at any step and continued equals one that was not, bit for bit."""

import errno
import json
import os
import random
import shutil
import signal
import time
from unittest.mock import ANY

import numpy as np
import pytest

from decent_core import topology
from decent_core.engine.virtual import VirtualCommunicator
from decent_core.training import checkpoint, checkpoint_files
from decent_core.training.checkpoint import Checkpoints
from tests.support import engines
from tests.support.ranks import run_ranks, start_ranks
from tests.support.toy import ToyTask

WORLD, STEPS, WINDOW = 4, 20, 3


def train_toy(world, folder, method, optimizer, name, pause=0.0, steps=STEPS, precision="fp64"):
    """Train with a checkpoint after every second step; leaves the step reached in a file, for the one who kills."""
    graph = topology.build(name, WORLD, 2)
    task = ToyTask(seed=1, world_size=WORLD, dropout=0.2, batch_norm=True)
    cadence = {"checkpoint_every": 2, "eval_every": 6, "log_every": 5, "clip_norm": 0.5, "micro_batches": 2}
    trainer, log, _ = engines.make_trainer(
        world, folder / "checkpoints", task, graph, method, optimizer, steps=steps, precision=precision, **cadence
    )
    started_at = trainer.engine.step
    original = trainer._train_step

    def train_step(ahead):
        original(ahead)
        time.sleep(pause)
        (folder / f"reached_{world.rank}").write_text(str(trainer.engine.step))

    trainer._train_step = train_step
    outcome = trainer.run()
    buffers = [[b.numpy().copy() for b in own] for own in trainer.engine.replicas.buffers]
    return started_at, trainer.engine.x.numpy().copy(), buffers, outcome, engines.untimed(trainer.progress.curve), log


def assert_same_end(whole, resumed):
    assert np.array_equal(whole[1], resumed[1], equal_nan=True), "parameters differ"
    for a, b in zip(whole[2], resumed[2], strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)), "buffers differ"
    assert whole[3] == resumed[3], "the outcome differs"
    assert whole[4] == resumed[4], "the curve differs"
    lines = {entry["step"]: entry for entry in engines.untimed(whole[5]) if entry["kind"] == "train"}
    for entry in engines.untimed(resumed[5]):
        if entry["kind"] == "train":
            assert entry == lines[entry["step"]], "a log line differs"


def rank_trains(rank, folder, *arguments):
    graph = topology.build(arguments[2], WORLD, 2)
    return train_toy(engines.distributed_communicator(graph, arguments[0]), folder, *arguments)


def virtual_rank_trains(rank, folder, *arguments):
    return train_toy(VirtualCommunicator(WORLD), folder, *arguments)


def kill_when_reached(ranks, folder, step: int, processes: int) -> None:
    """Kill -9 all processes as soon as rank 0 has reached the step."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        path = folder / "reached_0"
        if path.exists() and (text := path.read_text()) and int(text) >= step:
            break
        time.sleep(0.002)
    for process in ranks.processes:
        os.kill(process.pid, signal.SIGKILL)
    assert all(not ok for ok, _ in ranks.collect(10)), "the run had ended before it was killed"


@pytest.mark.parametrize(
    ("processes", "method", "optimizer", "name"),
    [
        (1, "awc", "accum_adamw", "aer"),
        (1, "allreduce", "adamw", "complete"),
        (4, "awc", "accum_adamw", "aer"),
        pytest.param(4, "atc", "sgd", "ring", marks=pytest.mark.slow),
        (4, "allreduce", "accum_adam", "complete"),
        pytest.param(4, "gradient_tracking", "adamw", "ring", marks=pytest.mark.slow),
    ],
)
def test_killed_run_continues_exactly(tmp_path, processes, method, optimizer, name):
    function = rank_trains if processes == WORLD else virtual_rank_trains
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir(), killed.mkdir()
    arguments = (method, optimizer, name)
    reference = run_ranks(function, processes, whole, *arguments)
    step = random.randint(3, STEPS - 3)
    ranks = start_ranks(function, processes, killed, *arguments, 0.03)
    kill_when_reached(ranks, killed, step, processes)
    resumed = run_ranks(function, processes, killed, *arguments)
    assert all(0 < started <= step + 2 for started, *_ in resumed), "it did not continue from a checkpoint"
    for a, b in zip(reference, resumed, strict=True):
        assert_same_end(a, b)


def test_resume_in_the_middle_of_a_window_and_of_a_log_interval(tmp_path):
    """A checkpoint of step 4: one step into AccumAdam's second window of 3, four steps into a log interval of 5."""
    world = VirtualCommunicator(WORLD)
    whole = train_toy(world, make(tmp_path / "whole"), "awc", "accum_adamw", "aer")
    half = make(tmp_path / "half")
    graph, task = topology.build("aer", WORLD, 2), ToyTask(seed=1, world_size=WORLD, dropout=0.2, batch_norm=True)
    cadence = {"checkpoint_every": 4, "eval_every": 6, "clip_norm": 0.5, "micro_batches": 2}
    trainer, _, _ = engines.make_trainer(world, half / "checkpoints", task, graph, steps=STEPS, **cadence)
    trainer.run()
    for folder in (half / "checkpoints").iterdir():
        if folder.name != "step_00000016":
            shutil.rmtree(folder)
    resumed = train_toy(world, half, "awc", "accum_adamw", "aer")
    assert resumed[0] == 16
    assert 16 % WINDOW != 0
    assert 16 % 5 != 0
    assert_same_end(whole, resumed)


def make(folder):
    folder.mkdir()
    return folder


@pytest.fixture
def saved(tmp_path):
    """Checkpoints of steps 18 and 20 of a finished run."""
    train_toy(VirtualCommunicator(WORLD), tmp_path, "awc", "adamw", "ring")
    assert sorted(f.name for f in (tmp_path / "checkpoints").iterdir()) == ["step_00000018", "step_00000020"]
    return tmp_path / "checkpoints"


def reload(folder, resume="auto", optimizer="adamw"):
    graph, task = topology.build("ring", WORLD, 2), ToyTask(seed=1, world_size=WORLD, dropout=0.2, batch_norm=True)
    trainer, _, warnings = engines.make_trainer(
        VirtualCommunicator(WORLD), folder, task, graph, "awc", optimizer, resume, steps=STEPS
    )
    return trainer.engine.step, warnings


def test_damaged_checkpoint_is_refused_by_name_and_the_one_before_is_used(saved):
    path = saved / "step_00000020" / "rank_00000.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    step, warnings = reload(saved)
    assert step == 18
    assert len(warnings) == 2
    assert "1 later or former checkpoints are set aside" in warnings[1]
    assert "step_00000020" in warnings[0] and "rank_00000.pt has another sha256" in warnings[0]


@pytest.mark.parametrize("damage", ["truncate", "remove"])
def test_other_damages_are_refused_too(saved, damage):
    path = saved / "step_00000020" / "rank_00000.pt"
    path.unlink() if damage == "remove" else path.write_bytes(path.read_bytes()[:100])
    step, warnings = reload(saved)
    assert (step, len(warnings)) == (18, 2)
    assert path.name in warnings[0]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"5", b'{"step": 20, "identity": [], "files": {}}', b"\xff\xfe",
     b'{"step": 20, "identity": {}, "files": []}', b'{"step": "x", "identity": {}, "files": {}}', b"[" * 100_000],
)  # fmt: skip
def test_manifest_of_any_other_content_is_refused(saved, content):
    (saved / "step_00000020" / "manifest.json").write_bytes(content)
    step, warnings = reload(saved)
    assert step == 18
    assert "manifest.json cannot be read" in warnings[0]


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
def test_what_only_has_a_checkpoints_name_is_in_nobodys_way(saved, kind, tmp_path):
    for name in ("step_00000022", "step_00000024.partial"):
        if kind == "file":
            (saved / name).write_text("no checkpoint")
        else:
            (saved / name).symlink_to(tmp_path if kind == "link" else tmp_path / "nothing")
    checkpoints = Checkpoints(saved, VirtualCommunicator(WORLD), 2, {}, lambda text: None)
    assert reload(saved)[0] == 20
    checkpoints.save(22, {}), checkpoints.save(24, {})
    assert sorted(f.name for f in saved.glob("step_*")) == ["step_00000022", "step_00000024"]
    assert tmp_path.is_dir()


def test_a_new_start_sets_the_former_runs_checkpoints_aside_and_keeps_its_own(saved):
    """Former steps are later ones: they are neither kept in place of the new run's nor continued from."""
    step, warnings = reload(saved, resume="never")
    assert (step, len(warnings)) == (0, 1)
    checkpoints = Checkpoints(saved, VirtualCommunicator(WORLD), 2, {}, warnings.append)
    for step in (3, 6, 9):
        checkpoints.save(step, {})
    assert sorted(f.name for f in saved.glob("step_*")) == ["step_00000006", "step_00000009"]
    assert sorted(f.name for f in (saved / "set_aside").iterdir()) == ["step_00000018", "step_00000020"]


def test_the_checkpoint_just_saved_stays_beside_later_ones(saved):
    (saved / "step_00000020" / "rank_00000.pt").write_bytes(b"damaged")
    assert reload(saved)[0] == 18
    Checkpoints(saved, VirtualCommunicator(WORLD), 1, {}, lambda text: None).save(19, {})
    assert [f.name for f in saved.glob("step_*")] == ["step_00000019"]


def test_checkpoint_that_cannot_be_read_is_refused_too(saved, monkeypatch):
    def stale(path):
        if path.parent.name == "step_00000020":
            raise OSError(errno.ESTALE, "Stale file handle")
        return sha256(path)

    sha256 = checkpoint.sha256
    monkeypatch.setattr(checkpoint, "sha256", stale)
    assert reload(saved) == (18, [ANY, ANY])


def test_old_checkpoint_that_cannot_be_removed_does_not_end_the_run(saved, monkeypatch):
    def busy(path, ignore_errors=False):
        if not ignore_errors:
            raise OSError(errno.EBUSY, "Device or resource busy")

    warnings = []
    checkpoints = Checkpoints(saved, VirtualCommunicator(WORLD), 2, {}, warnings.append)
    monkeypatch.setattr(checkpoint_files.shutil, "rmtree", busy)
    monkeypatch.setattr(checkpoint, "make_empty", lambda folder: folder.mkdir())
    assert checkpoints.save(21, {}).is_dir()
    assert len(warnings) == 1
    assert "step_00000018 could not be removed" in warnings[0]


@pytest.mark.parametrize(("first", "second"), [(50, 5), (5, 50)])
def test_log_interval_may_change_when_a_run_continues(tmp_path, first, second):
    graph, task = topology.build("ring", WORLD, 2), ToyTask(seed=1, world_size=WORLD)
    lines = []
    for interval in (first, second):
        trainer, log, _ = engines.make_trainer(
            VirtualCommunicator(WORLD), tmp_path, task, graph, "awc", "adamw", steps=STEPS, log_every=interval,
            checkpoint_every=8,
        )  # fmt: skip
        assert trainer.run().status == "ok"
        lines.append([line for line in log if line["kind"] == "train"])
        shutil.rmtree(tmp_path / f"step_{STEPS:08d}")  # the next one starts at step 16, within a log interval
    whole, continued = lines
    assert whole[-1]["step"] == STEPS
    assert [line["step"] for line in continued] == [STEPS]


def test_all_checkpoints_damaged_starts_anew(saved):
    for path in saved.glob("*/rank_00000.pt"):
        path.write_bytes(b"")
    step, warnings = reload(saved)
    assert (step, len(warnings)) == (0, 3)


def test_checkpoint_of_another_configuration_is_refused_with_the_key(saved):
    with pytest.raises(ValueError, match=r"step_00000020 refused: optimizer is 'adamw' there, 'sgd' here.*out="):
        reload(saved, optimizer="sgd")


def test_checkpoint_of_another_configuration_is_passed_over_for_a_fitting_one(saved):
    manifest = saved / "step_00000020" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["identity"]["world_size"] = 7
    manifest.write_text(json.dumps(content))
    step, warnings = reload(saved)
    assert step == 18
    assert "world_size is 7 there, 4 here" in warnings[0]


def test_explicit_checkpoint_is_used_or_refused(saved):
    assert reload(saved, resume=str(saved / "step_00000018"))[0] == 18
    assert reload(saved, resume="never")[0] == 0
    with pytest.raises(ValueError, match=r"step_00000007 refused: manifest.json cannot be read"):
        reload(saved, resume=str(saved / "step_00000007"))


def test_interrupted_save_leaves_no_checkpoint_behind(saved):
    shutil.copytree(saved / "step_00000020", saved / "step_00000022.partial")
    assert reload(saved)[0] == 20
