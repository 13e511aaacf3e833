"""The commands that submit runs to a cluster, and the page that names them."""

import hashlib
import re
import shlex
import shutil
import subprocess

import pytest

from decent_core.config.load import load
from scripts import tables
from tests.support import ROOT


def dry_run(capsys, *arguments):
    tables.main(["submit", *arguments, "dry=true"])
    return capsys.readouterr().out.splitlines()


def profile(tmp_path, old="", new=""):
    path = tmp_path / "site.env"
    path.write_text((ROOT / "slurm/cluster/example.env").read_text().replace(old, new, 1))
    return f"cluster={path}"


def test_dry_run_prints_the_commands_exactly(tmp_path, capsys):
    site = profile(tmp_path, "FOLDER=/scratch/$(id -un)/decent-bench", "FOLDER=/scratch/runs")
    planning, logs, array, collect = dry_run(capsys, site, "table=p-table2", "seeds=3", "overrides=[task.meteor=false]")
    jobs = re.search(r"out=(\S+)", planning)[1]
    assert re.fullmatch(r"/scratch/runs/jobs/p-table2-paper-[0-9a-f]{8}\.txt", jobs)
    assert planning == (
        ".venv/bin/python -m scripts.tables plan table=p-table2 scale=paper seeds=3 runs=/scratch/runs "
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


def test_the_jobs_file_of_a_dry_run_is_the_one_that_its_arrays_number(tmp_path, capsys):
    """Of two seeds and three numbers of nodes: the order of rows and seeds matters."""
    site = profile(tmp_path, "FOLDER=/scratch/$(id -un)/decent-bench", f"FOLDER={tmp_path}/runs")
    planning, _, *commands = dry_run(capsys, site, "table=p/figure6_a100", "seeds=2")
    tables.main(shlex.split(planning)[3:])
    (path,) = (tmp_path / "runs" / "jobs").iterdir()
    assert path.stem.rpartition("-")[2] == hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    workers = [load(shlex.split(line)).world_size for line in path.read_text().splitlines()]
    assert len(workers) == 24
    for command in commands[:3]:
        numbers, nodes = re.search(r"--array=([\d,]+)%4 --nodes=(\d+)", command).groups()
        assert {workers[int(number) - 1] for number in numbers.split(",")} == {4 * int(nodes)}


def test_an_array_for_each_number_of_nodes(tmp_path, capsys):
    lines = dry_run(capsys, profile(tmp_path, "WORKERS_PER_NODE=4", "WORKERS_PER_NODE=8"), "table=p-figure6_a100")
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
        tables.main(["submit", profile(tmp_path, old, new), "table=p-gpt2", "dry=true"])


def test_a_variable_of_the_users_shell_is_no_part_of_a_profile(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("QOS", "mine")
    assert "--qos" not in " ".join(dry_run(capsys, profile(tmp_path), "table=p-gpt2"))


def test_submit_without_a_cluster_or_slurm_is_one_message(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"cluster=exmaple: no such cluster; did you mean example\?"):
        tables.main(["submit", "cluster=exmaple", "table=p-gpt2"])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="no sbatch on the path"):
        tables.main(["submit", "cluster=local", "table=p-gpt2"])


def test_commands_of_the_page_about_clusters_are_right(tmp_path, capsys):
    """Those that submit are run dry, those that train or prepare are composed; train.sbatch runs in test_launch."""
    page = (ROOT / "docs" / "cluster.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    seen = set()
    for words in [shlex.split(line) for block in blocks for line in block.splitlines()]:
        seen.add(check_command(words, tmp_path))
    assert seen == {"make setup", "cp", "prepare", "make plan", "plan", "make submit", "sbatch", "report", "train"}


def check_command(words, tmp_path):
    if words[0] == "make" and len(words) > 2:
        shown = subprocess.run(
            ["make", "--dry-run", "--no-print-directory", "--old-file=setup", *words[1:]], cwd=ROOT, capture_output=True
        )
        arguments = shlex.split(shown.stdout.decode())[4:]  # python -m scripts.tables VERB
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
        return script.removeprefix("scripts.")
    assert script == "scripts.tables"
    verb, *rest = arguments
    if verb == "plan":
        run_planning("plan", [f"out={tmp_path}/jobs" if text.startswith("out=") else text for text in rest])
    else:
        assert verb == "report"
        assert {text.partition("=")[0] for text in rest} == {"jobs", "results"}
    return verb


def run_planning(name, arguments):
    if name == "submit":
        tables.main(["submit", *(text for text in arguments if not text.startswith("dry=")), "dry=true"])
    else:
        tables.main(["plan", *arguments])
