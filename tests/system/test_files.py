import signal
import subprocess
import sys
import time

import pytest

from decent_core.system.files import open_lock


def test_a_lock_that_is_a_symbolic_link_is_refused_and_its_target_stays(tmp_path):
    target, link = tmp_path / "precious.txt", tmp_path / ".lock"
    target.write_text("precious")
    link.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        open_lock(link)
    assert target.read_text() == "precious"


def test_a_lock_is_made_and_keeps_what_a_file_there_holds(tmp_path):
    path = tmp_path / ".lock"
    open_lock(path).close()
    path.write_text("old")
    open_lock(path).close()
    assert path.read_text() == "old"


def test_write_atomically_leaves_a_whole_file_whenever_it_is_killed(tmp_path):
    target = tmp_path / "file.txt"
    code = f"""
from pathlib import Path
from decent_core.system.files import write_atomically
for i in range(10**9):
    write_atomically(Path({str(target)!r}), f"{{i % 10}}" * 500_000)
"""
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", code])
        while not target.exists():
            time.sleep(0.01)
        time.sleep(0.05)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        content = target.read_text()
        assert len(content) == 500_000
        assert len(set(content)) == 1
