"""What some tests need beyond `make setup`. CI installs all of it: there they run, or fail, and are never skipped."""

import importlib.util
import os
import shutil

import pytest


def _needs(there: bool, what: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not there and os.environ.get("CI") != "true", reason=f"needs {what}")


ROOT_USER = hasattr(os, "geteuid") and os.geteuid() == 0
mpirun = _needs(shutil.which("mpirun") is not None, "mpirun")
slurm = _needs(ROOT_USER and shutil.which("slurmctld") is not None, "root and Slurm (slurm-wlm, munge)")
namespaces = _needs(ROOT_USER and shutil.which("ip") is not None, "root and iproute2")
root = _needs(ROOT_USER, "root")
decent_dp = _needs(importlib.util.find_spec("decent_dp") is not None, "the extra compare (make setup)")
fairseq = _needs(importlib.util.find_spec("fairseq") is not None, "make setup-fairseq")
dali = _needs(all(importlib.util.find_spec(name) for name in ("nvidia", "nvidia.dali")), "make setup-dali")
chromium = _needs(shutil.which("chromium") is not None, "chromium")
