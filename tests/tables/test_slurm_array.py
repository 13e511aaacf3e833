"""Job arrays on a real Slurm of three nodes on this host: runs over two of them, stops, failures, the report behind."""

import re
import subprocess
import time
from pathlib import Path

import pytest

from decent_core.config.load import load
from decent_core.records.record import read
from decent_core.tables.cluster import load_cluster
from decent_core.tables.costs import bytes_sent_per_step, row_elements
from decent_core.tables.plan import make_run, plan
from decent_core.tables.submission import Submission
from scripts import tables
from tests.support import ROOT, needs

pytestmark = needs.slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    script = ROOT / "tests" / "support" / "slurm_cluster.sh"
    with needs.alone("slurm"), pytest.MonkeyPatch.context() as patch:
        subprocess.run(["bash", str(script), "up", str(folder), "3"], check=True, timeout=60)
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        yield
        subprocess.run(["scancel", "--user=root"], check=True)
        wait_for(lambda: not ask("squeue", "--noheader"))  # a node's daemon would wait for the end of its jobs
        subprocess.run(["bash", str(script), "down", str(folder)], check=True, timeout=60)


def profile(tmp_path, workers):
    """slurm/cluster/local.env with other workers a node, and everything under the test's own folder."""
    text = (ROOT / "slurm" / "cluster" / "local.env").read_text()
    text = re.sub("^WORKERS_PER_NODE=.*", f"WORKERS_PER_NODE={workers}", text, flags=re.MULTILINE)
    text = re.sub("^FOLDER=.*", f"FOLDER={tmp_path}", text, flags=re.MULTILINE)
    (tmp_path / "local.env").write_text(text)
    return str(tmp_path / "local.env")


def ask(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def wait_for(condition, seconds=200):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain; the queue:\n{ask('squeue')}"
        time.sleep(0.1)


def text_of(path):
    return path.read_text() if path.exists() else ""


def state_of(job):
    return re.search(r"JobState=(\S+)", ask("scontrol", "show", "job", job))[1]


def start_now(job):
    """A requeued job waits for two minutes, unless it is told otherwise once it is back in the queue."""
    wait_for(lambda: state_of(job) == "PENDING")
    # in the second in which the old start was revoked, a node refuses the new one, and Slurm gives the job up
    ask("scontrol", "update", f"JobId={job}", "StartTime=now+3")


def test_stopped_runs_continue_exactly_and_a_cancelled_one_stays_away(slurm, tmp_path, capsys):
    """One run three times, requeued by Slurm, undisturbed, told to end before the time limit; and one to cancel.

    Slurm gives an array's last task the number of the array itself. The folder of the runs has a name that, without
    quotes, the shell and Hydra would both take apart.
    """
    shape = [
        "task=regression", "scale=smoke", "optimizer=adam", "method=awc", "topology=one_peer_exp", "local_size=1",
        "engine=distributed", "trainer.log_every=100", "trainer.eval_every=0",
    ]  # fmt: skip
    two, one = ["world_size=2", "trainer.steps=3000"], ["world_size=1", "trainer.steps=60000"]
    sizes = {"requeued": two, "undisturbed": two, "signalled": two, "cancelled": one}
    runs = [make_run(name, load([*shape, *size]), tmp_path / "it's k=1, β2") for name, size in sizes.items()]
    submission = Submission(load_cluster(profile(tmp_path, workers=1)), "exact", runs)
    submission.submit()
    two_nodes, one_node, report = re.search(r"arrays (\d+), (\d+); job (\d+)", capsys.readouterr().out).groups()
    tasks = [f"{two_nodes}_1", f"{two_nodes}_2", f"{two_nodes}_3", f"{one_node}_4"]
    logs = [tmp_path / "logs" / f"{task}.log" for task in tasks]

    waiting = {
        tasks[0]: ("scontrol", "requeue"),
        tasks[2]: ("scancel", "--signal=USR1"),
        tasks[3]: ("scancel",),
    }

    def all_disturbed():
        for task, command in list(waiting.items()):
            if "\nstep 200/" in text_of(tmp_path / "logs" / f"{task}.log"):
                ask(*command, task)
                del waiting[task]
        return not waiting

    wait_for(all_disturbed)
    assert f"JobId={two_nodes} ArrayJobId={two_nodes} ArrayTaskId=3 " in ask("scontrol", "show", "job", tasks[2])
    start_now(tasks[0])
    start_now(tasks[2])
    wait_for(lambda: (submission.results / "runs.txt").exists())
    records = [read(run.record) for run in runs]
    assert [record.status for record in records] == ["ok", "ok", "ok", "preempted"]
    assert records[0].parameters_sha256 == records[1].parameters_sha256 == records[2].parameters_sha256
    assert len(set(records[1].parameters_sha256)) == 2, "the workers differ, so equal hashes say something"
    for log, signal in zip((logs[0], logs[2]), ("SIGTERM", "SIGUSR1"), strict=True):
        assert f"stopped by {signal} after step" in log.read_text()
        assert log.read_text().count("continues from the checkpoint of step") == 1
    assert "continues" not in logs[1].read_text()
    assert state_of(tasks[3]) == "CANCELLED"
    said = (submission.results / "runs.txt").read_text().splitlines()
    assert said[0] == "3 of 4 runs are finished"
    assert re.fullmatch(r"line 4, regression-s1: preempted: stopped by SIGTERM after step \d+", said[1])
    wait_for(lambda: state_of(report) == "FAILED")  # exit status 1: not all are finished


def test_make_submit_runs_a_table_and_a_failing_run_leaves_the_others_alone(slurm, tmp_path, capsys):
    """Four workers on two nodes; where one of the runs would write, a file is in the way."""
    table, cluster = "l/figure2/da l/figure2/dsgd", profile(tmp_path, workers=2)
    arguments = ["submit", f"table={table}", "scale=smoke", f"cluster={cluster}"]
    tables.main([*arguments, "dry=true"])
    assert "--array=1-2%4 --nodes=2" in capsys.readouterr().out
    assert not list(tmp_path.glob("jobs/*")), "a dry run writes nothing"
    failing, working = plan(table, "smoke", 1, tmp_path, launched=True).runs
    failing.folder.parent.mkdir(parents=True)
    failing.folder.write_text("in the way")
    said = ask("make", "--silent", "--old-file=setup", "submit", f"TABLE={table}", "SCALE=smoke", f"CLUSTER={cluster}")
    results = tmp_path / "results" / "l-figure2-da_l-figure2-dsgd-smoke"
    wait_for(lambda: (results / "runs.txt").exists())
    assert (results / "runs.txt").read_text().splitlines() == [
        "1 of 2 runs are finished",
        f"line 1, l/figure2/da-s1: no record in {failing.folder}",
    ]
    assert (results / "l" / "figure2" / "smoke.md").exists()
    assert (results / "report.html").exists()
    record = read(working.record)
    found = (record.status, record.engine, record.world_size, record.local_size, record.config_hash)
    assert found == ("ok", "distributed", 4, 1, working.config_hash)
    config = load(working.overrides)
    assert record.bytes_sent_per_step == bytes_sent_per_step(config, row_elements(config)), "as the plan says"
    log = tmp_path / "logs" / f"{re.search('arrays ([0-9]+)', said)[1]}_1.log"
    assert f"out={failing.folder}: cannot be written" in log.read_text()
    tables.main([*arguments, "dry=true"])
    assert "--array=1%4" in capsys.readouterr().out, "what is finished is left out"


def test_an_option_that_slurm_refuses_is_one_message(slurm, tmp_path):
    path = Path(profile(tmp_path, workers=2))
    path.write_text(path.read_text().replace("PARTITION=\n", "PARTITION=nowhere\n"))
    with pytest.raises(ValueError, match=r"sbatch .*--partition=nowhere .*invalid partition specified: nowhere"):
        tables.main(["submit", f"cluster={path}", "table=l/figure2/d2", "scale=smoke"])
