"""`python -m MODULE ARGUMENTS` without its imports: real processes, forked from one that has torch loaded."""

import atexit
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support import ROOT
from tests.support.ranks import CONTEXT


class Command:
    """An entry point at work; with `ranks`, in several processes that find each other as torchrun's do."""

    def __init__(self, module: str, arguments: tuple[str, ...], cwd: Path, ranks: int, environment: Mapping[str, str]):
        self.arguments = ["-m", module, *arguments]
        self.folder = tempfile.TemporaryDirectory()
        self.texts = [Path(self.folder.name) / name for name in ("stdout", "stderr")]
        for text in self.texts:
            text.touch()
        self.processes = [
            CONTEXT.Process(target=_work, args=(module, arguments, cwd, os.environ | environment | names, self.texts))
            for names in (_launched(ranks) if ranks else [{}])
        ]
        for process in self.processes:
            process.start()
        atexit.register(self.kill)  # or multiprocessing waits at the end for one that a failed test has left behind

    @property
    def pid(self) -> int:
        return self.processes[0].pid

    @property
    def stdout(self) -> str:
        return self.texts[0].read_text()

    @property
    def stderr(self) -> str:
        return self.texts[1].read_text()

    def poll(self) -> int | None:
        """The exit status, the first that is not 0 of several ranks; None while one of them works."""
        codes = [process.exitcode for process in self.processes]
        return None if None in codes else next((code for code in codes if code), 0)

    def send_signal(self, number: int) -> None:
        for process in self.processes:
            os.kill(process.pid, number)

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()

    def wait(self, seconds: float = 100) -> subprocess.CompletedProcess[str]:
        """Status and output, when it has ended; it is killed after so many seconds."""
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))
        status = self.poll()
        self.kill()
        if status is None:
            raise TimeoutError(f"{' '.join(self.arguments)} has not ended within {seconds:g} s\n{self.stderr}")
        return subprocess.CompletedProcess(self.arguments, status, self.stdout, self.stderr)


def start(module: str, *arguments: str, cwd: Path = ROOT, ranks: int = 0, **environment: str) -> Command:
    """Start an entry point and return at once, for tests that interfere with it."""
    return Command(module, arguments, cwd, ranks, environment)


def run(
    module: str, *arguments: str, cwd: Path = ROOT, ranks: int = 0, seconds: float = 100, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run an entry point to its end."""
    return start(module, *arguments, cwd=cwd, ranks=ranks, **environment).wait(seconds)


def _launched(ranks: int) -> list[dict[str, str]]:
    """The variables that torchrun sets for each of its processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    world = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{"RANK": str(rank), "LOCAL_RANK": str(rank), **world} for rank in range(ranks)]


def _work(module: str, arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], texts: list[Path]) -> None:
    for number, text in enumerate(texts, start=1):
        os.dup2(os.open(text, os.O_WRONLY | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[0] = str(cwd)
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
