import signal
import subprocess
import sys
import time


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
