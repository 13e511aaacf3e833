"""Launchers: torchrun, mpirun and srun start real ranks that find each other; what they leave unset is found out."""

import json
import os
import subprocess
import sys

import pytest
import torch

from decent_core.records.record import read
from decent_core.training.launch import Launch, choose_device, find_launch
from tests.support import ROOT, needs
from tests.support.processes import wait_for

MEET = """
import json, sys, torch, torch.distributed as dist
from decent_core.training.launch import find_launch, join, workers_per_node
launch = find_launch()
join(launch, 60)
total = torch.tensor([float(launch.rank)])
dist.all_reduce(total)
nodes = workers_per_node()
if launch.rank == 0:
    print(json.dumps([launch.launcher, launch.world_size, total.item(), nodes]))
dist.destroy_process_group()
"""
#: notes that Python is being taken down
WATCH = """
import atexit, os
if "RANK" in os.environ:
    atexit.register(lambda: open(os.environ["WATCHED"], "w").close())
"""
#: a file system that takes long for the record
SLOW = """
import os, time
replace = os.replace
def slowly(source, target):
    time.sleep(6 if str(target).endswith("/record.json") else 0)
    replace(source, target)
os.replace = slowly
"""


def started_by(command: list[str], **environment: str) -> list:
    """What rank 0 of MEET says, started by the command."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "OMPI", "MASTER", "RANK"))
    }
    done = subprocess.run(
        command,
        env={**kept, "OMP_NUM_THREADS": "1", **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_torchrun(tmp_path):
    script = tmp_path / "meet.py"
    script.write_text(MEET)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", str(script)]
    assert started_by(command, PYTHONPATH=str(ROOT)) == ["torchrun", 3, 3.0, [3]]


def test_rank_ends_without_taking_python_down(tmp_path):
    """Or a thread of gloo's that is still at work then may abort it, whatever its exit status was to be."""
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    run = ["method=awc", "optimizer=adam", "scale=smoke", "engine=distributed", f"out={tmp_path}/run"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "scripts.train",
         "task=regression", "topology=complete", *run],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tmp_path), "WATCHED": str(tmp_path / "watched")},
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "run/record.json"), "what was said is there"
    assert not (tmp_path / "watched").exists()


@needs.mpirun
@pytest.mark.slow
def test_mpirun():
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, "-c", MEET]
    assert started_by(command) == ["mpirun (Open MPI)", 3, 3.0, [3]]


@pytest.fixture
def slurm(tmp_path):
    """A real Slurm of two nodes on this host."""
    script = ROOT / "tests" / "support" / "slurm_cluster.sh"
    with needs.alone("slurm"):
        subprocess.run(["bash", str(script), "up", str(tmp_path), "2"], check=True, timeout=60)
        yield {"SLURM_CONF": str(tmp_path / "slurm.conf")}
        subprocess.run(["bash", str(script), "down", str(tmp_path)], check=True, timeout=60)


@needs.slurm
def test_srun_over_two_nodes(slurm):
    """Plain srun: no LOCAL_WORLD_SIZE, no rendezvous; both nodes are this host, so the address is given."""
    command = ["srun", "-N2", "-n4", "--overcommit", sys.executable, "-c", MEET]
    assert started_by(command, MASTER_ADDR="127.0.0.1", **slurm) == ["srun", 4, 6.0, [2, 2]]


@pytest.fixture
def submit_job(slurm, tmp_path):
    """Submits slurm/train.sbatch as a user does in a fresh clone, where git's ignored folders are not there."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in (".venv", "conf", "decent_core", "scripts", "slurm", "tasks"):
        (clone / name).symlink_to(ROOT / name)
    # the nodes are this host, and their names have no addresses here
    environment = {**os.environ, **slurm, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}

    def start(name, *overrides, **more):
        command = ["sbatch", "--wait", "--nodes=2", "--ntasks-per-node=1", f"--job-name={name}", "slurm/train.sbatch"]
        shape = ["scale=smoke", "method=awc", "topology=ring", f"out={tmp_path / name}"]
        return subprocess.Popen([*command, *shape, *overrides], cwd=clone, env=environment | more)

    return start


@needs.slurm
def test_job_script_trains_over_two_nodes(submit_job, tmp_path):
    assert submit_job("run").wait(timeout=200) == 0
    record = read(tmp_path / "run" / "record.json")
    assert (record.status, record.engine, record.world_size, record.local_size) == ("ok", "distributed", 2, 1)
    assert str(tmp_path / "run" / "record.json") in (tmp_path / "clone" / "slurm-1.log").read_text()


@needs.slurm
def test_job_script_leaves_a_diverged_and_a_stopped_run_the_time_for_their_records(slurm, submit_job, tmp_path):
    """More of it than Slurm's KillWait, after the other rank has ended with the run's own status."""
    with open(slurm["SLURM_CONF"], "a") as conf:
        conf.write("KillWait=2\n")
    subprocess.run(["scontrol", "reconfigure"], env=os.environ | slurm, check=True)
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    shape = ["task=regression", "optimizer=sgd", "trainer.log_every=1"]
    diverged = submit_job("diverged", *shape, "optimizer.lr=1e30", PYTHONPATH=str(tmp_path))
    stopped = submit_job("preempted", *shape, "trainer.steps=1000000", PYTHONPATH=str(tmp_path))
    wait_for((tmp_path / "preempted" / "metrics.jsonl").exists, "it does not begin", seconds=120)
    subprocess.run(["scancel", "--signal=USR1", "--name=preempted"], env=os.environ | slurm, check=True)
    assert (diverged.wait(timeout=120), stopped.wait(timeout=120)) == (3, 75)
    for status in ("diverged", "preempted"):
        assert read(tmp_path / status / "record.json").status == status


def test_no_launcher():
    assert find_launch({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) is None, (
        "an allocation's shell is not a started rank"
    )
    assert find_launch({}) is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, Launch("torchrun", 1, 4, 1)),
        ({"PMI_RANK": "2", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0"}, Launch("mpirun (MPICH)", 2, 3, 0)),
    ],
)
def test_environment_of_launchers(environment, expected):
    assert find_launch(environment) == expected


def test_incomplete_environment_is_an_error_that_names_the_variable():
    with pytest.raises(ValueError, match="torchrun has set RANK but not LOCAL_RANK"):
        find_launch({"RANK": "1", "WORLD_SIZE": "4"})


def test_device_is_the_cpu_without_an_accelerator():
    if not torch.accelerator.is_available():
        assert choose_device(5) == torch.device("cpu")
