"""Pieces over several processes: in order, a bounded number ahead, and nothing left behind."""

import os
import signal
import subprocess
import sys

import pytest

from tasks.common.parallel import WAITING, ordered_map
from tests.support import ROOT
from tests.support.processes import children, still_running

RUN = """
import time
from tasks.common.parallel import ordered_map

def slowly(item, seconds):
    time.sleep(seconds)
    return item

if __name__ == "__main__":
    for item in ordered_map(slowly, range(1000), 0.05, 2):
        print(item, flush=True)
"""


def scaled(item, factor):
    return item * factor


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_order_and_few_pieces_are_read_ahead(processes):
    read = []

    def pieces():
        for number in range(60):
            read.append(number)
            yield number

    for number, result in enumerate(ordered_map(scaled, pieces(), 3, processes)):
        assert result == 3 * number
        assert len(read) - number <= WAITING * processes + 1
    assert number == 59


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_the_one_that_started_them_and_say_nothing(tmp_path, how):
    script = tmp_path / "run.py"
    script.write_text(RUN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, str(script)]
    process = subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)
    assert process.stdout.readline() == "0\n"
    workers = children(process.pid)
    assert len(workers) >= 2
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does: to all of them
    else:
        process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert not still_running(workers)
    assert errors.count("Traceback") == (1 if how == signal.SIGINT else 0)  # of the one that was interrupted
