"""Stands in for W&B where the test says so: fails, or never returns, at the call that FAIL_AT names."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace


def _call(name):
    if os.environ.get("FAIL_AT") == name:
        time.sleep(float(os.environ.get("HANG_SECONDS", "0")))
        raise RuntimeError(f"no space left\nat {name}")


class _Run:
    id = "the-run"
    step = int(os.environ.get("FIRST_STEP", "0"))

    def __init__(self, folder):
        self.sent, self.summary = [], {}
        self.dir = str(Path(folder) / "wandb" / "offline-run-1-the-run" / "files")
        Path(self.dir).mkdir(parents=True, exist_ok=True)

    def log(self, values, step=None, commit=None):
        _call("log")
        self.sent += [step] if values else []

    def save(self, *_, **__):
        _call("save")

    def finish(self, exit_code):
        _call("finish")
        (Path(self.dir) / "sent.json").write_text(json.dumps(self.sent))


def init(**options):
    _call("init")
    print("a banner")
    return _Run(options["dir"])


def teardown():
    """Nothing is held."""


Settings = SimpleNamespace
_call("import")
