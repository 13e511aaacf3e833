"""Tests pass wherever they are started."""

import subprocess
import sys

import pytest

from tests.support import ROOT


@pytest.mark.slow
def test_tests_of_ctrl_c_pass_where_a_shell_has_it_ignored():
    tests = [sys.executable, "-m", "pytest", "tests/tasks/test_parallel.py", "-k", "say_nothing"]
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout
