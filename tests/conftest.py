"""What all tests share: one thread a process, signals as they were, and one plain training run."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests run beside each other and start several processes each. Said before torch is imported, and inherited.
os.environ["OMP_NUM_THREADS"] = "1"

from decent_core.records.record import Record, read
from tests.support.runs import ROW, train


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record]:
    """Folder and record of an uninterrupted run of ROW without a dashboard."""
    folder = tmp_path_factory.mktemp("plain_run")
    train(*ROW, f"out={folder}")
    return folder, read(folder / "record.json")


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    """An entry point that is called in this process may catch the stop signals."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
