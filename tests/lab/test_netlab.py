"""The network lab, run for real: rates, nodes, failures, signals and leftovers. Needs Linux, root and iproute2."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from decent_core.lab.namespaces import PREFIX, remove_leftovers
from decent_core.records.record import read
from tests.support import ROOT, needs

RATE_MBIT, SENT = 40, 4_000_000
#: rank 1 sends to rank 0 over the device's address; rank 0 prints the rate it received at, in Mbit/s, after the burst
TRANSFER = """
import os, socket, sys, time
host, port, size = "10.77.0.1", 5001, int(sys.argv[1])
if os.environ["RANK"] == "0":
    connection = socket.create_server((host, port)).accept()[0]
    received = 0
    while received < size // 2:
        received += len(connection.recv(65536))
    first, start = received, time.monotonic()
    while chunk := connection.recv(65536):
        received += len(chunk)
    print((received - first) * 8e-6 / (time.monotonic() - start))
else:
    for attempt in range(100):
        try:
            connection = socket.create_connection((host, port))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    connection.sendall(bytes(size))
    connection.close()
"""


def lab(*arguments, **options):
    command = [sys.executable, "-m", "scripts.netlab", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150, **options)


def labs():
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.startswith(PREFIX)]


@needs.namespaces
def test_a_link_has_its_rate_and_the_lab_goes_away():
    done = lab("workers=2", f"rate={RATE_MBIT}mbit", "--", "python", "-c", TRANSFER, str(SENT))
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) == pytest.approx(RATE_MBIT, rel=0.12)
    assert labs() == []


@needs.namespaces
def test_inside_a_node_nothing_is_limited():
    done = lab("workers=2", "nodes=1", "rate=1mbit", "--", "python", "-c", TRANSFER, str(SENT))
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) > 100


@needs.namespaces
def test_a_training_run_finds_its_nodes(tmp_path):
    training = ["scripts.train", "task=gpt2", "scale=smoke", "engine=distributed", "method=awc", "topology=aer"]
    done = lab("workers=4", "nodes=2", "rate=500mbit", "--", "python", "-m", *training, f"out={tmp_path}")
    assert done.returncode == 0, done.stderr
    record = read(Path(done.stdout.splitlines()[-1]))
    assert (record.status, record.world_size, record.local_size) == ("ok", 4, 2)


@needs.namespaces
def test_a_failing_worker_ends_the_lab_with_its_status():
    script = "import os, sys, time; sys.exit(7) if os.environ['RANK'] == '1' else time.sleep(60)"
    start = time.monotonic()
    assert lab("workers=2", "rate=10mbit", "--", "python", "-c", script).returncode == 7
    assert time.monotonic() - start < 30
    assert labs() == []


def started(tmp_path):
    """A lab whose workers sleep, and their process ids once they run."""
    script = (
        "import os, pathlib, time\n"
        f"pathlib.Path({str(tmp_path)!r}, os.environ['RANK']).write_text(str(os.getpid()))\n"
        "time.sleep(60)"
    )
    command = [sys.executable, "-m", "scripts.netlab", "workers=2", "rate=10mbit", "--", "python", "-c", script]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while len(found := [p.read_text() for p in tmp_path.iterdir()]) < 2 or not all(found):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return process, [int(pid) for pid in found]


def wait_until_gone(pids):
    deadline = time.monotonic() + 10
    while any(
        Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in pids
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@needs.namespaces
def test_a_stopped_lab_cleans_up(tmp_path):
    process, pids = started(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.wait(40) == 130
    wait_until_gone(pids)
    assert labs() == []


@needs.namespaces
def test_what_a_killed_lab_leaves_is_removed_by_the_next(tmp_path):
    process, pids = started(tmp_path)
    process.kill()
    process.wait()
    wait_until_gone(pids)
    assert len(labs()) == 3
    assert len(remove_leftovers()) == 3
    assert labs() == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["workers=4", "rate=fast", "--", "true"], "rate=fast: must be a rate such as 100mbit"),
        (["workers=4", "nodes=3", "rate=1gbit", "--", "true"], "nodes=3: must divide workers=4"),
        (["workers=4", "rate=1gbit"], "no command: give it after --"),
    ],
)
def test_mistakes_are_answered_with_one_message(arguments, says):
    done = lab(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@needs.root
@pytest.mark.parametrize(
    ("user", "path", "says"), [(65534, os.environ["PATH"], "root"), (0, "/nonexistent", "iproute2")]
)
def test_missing_rights_or_tools_are_named(user, path, says):
    module = "decent_core.lab.namespaces"
    check = f"from {module} import check_possible\ntry:\n check_possible()\nexcept ValueError as e: print(e)"
    script = f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\nimport {module}\nos.setuid({user})\n{check}"
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PATH": path}, capture_output=True, text=True, timeout=60
    )
    assert says in done.stdout, json.dumps([done.stdout, done.stderr])
