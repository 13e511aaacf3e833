import subprocess
import sys

from decent_core.records import provenance
from decent_core.records.provenance import git_state, versions
from decent_core.system.files import write_atomically


def test_git_state_is_dirty_by_sources_alone(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        command = ["git", *identity, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert git_state() == (None, None)
    git("init")
    for name in ("README.md", "conf/config.yaml"):
        write_atomically(tmp_path / name, "a")
    git("add", ".")
    git("commit", "-m", "a")
    commit = git("rev-parse", "HEAD")
    assert git_state() == (commit, False)
    write_atomically(tmp_path / "README.md", "b")
    assert git_state() == (commit, False)
    write_atomically(tmp_path / "decent_core" / "mine.py", "b")
    assert git_state() == (commit, True)


def test_versions_are_those_of_what_runs():
    import numpy

    assert versions()["numpy"] == numpy.__version__
    assert versions()["python"] == sys.version.split()[0]
