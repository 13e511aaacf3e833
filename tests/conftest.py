"""What all tests share: one thread a process, signals, markers, and one plain training run."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests run beside each other and start several processes each. Said before torch is imported, and inherited.
os.environ["OMP_NUM_THREADS"] = "1"

from decent_core.records.record import Record, read
from tests.support import needs
from tests.support.runs import ROW, train

# A shell starts what runs in the background with Ctrl-C ignored, and that is inherited too.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: what a module's tests start other processes with
STARTERS = {"commands", "run_ranks", "start_ranks", "subprocess", "train"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that take turns come first, and so to one worker of pytest-xdist, which then waits for no other."""
    for item in items:
        if isinstance(item, pytest.Function) and STARTERS & vars(item.module).keys():
            item.add_marker("processes")
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("slurm", "network"))))


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs.skip_what_is_missing(item)


@pytest.fixture(autouse=True)
def one_network_at_a_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """The lab's network namespaces have fixed names, and its measurements want the processor."""
    if request.node.get_closest_marker("network") is None:
        yield
    else:
        with needs.alone("network"):
            yield


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    """An entry point that is called in this process may catch the stop signals."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record]:
    """Folder and record of an uninterrupted run of ROW without a dashboard."""
    folder = tmp_path_factory.mktemp("plain_run")
    train(*ROW, f"out={folder}")
    return folder, read(folder / "record.json")
