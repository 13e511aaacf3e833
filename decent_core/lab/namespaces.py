"""Hosts on one machine: network namespaces that are joined by a switch, each over a link of limited rate (Linux, root).

Names carry the process that owns them and when it started, so that what a killed process has left can be told from what
is in use.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PREFIX = "decentlab"
DEVICE = "eth0"  # of every host
MOST_HOSTS = 250
#: a token bucket that keeps its rate within some per cent from 10 Mbit/s to 1 Gbit/s
BUCKET = ("burst", "128kb", "latency", "50ms")
#: as tc reads it: 100mbit, 1.5gbit
RATE = re.compile(r"\d+(\.\d+)?(k|m|g)bit")
UNITS = {"k": 1e-3, "m": 1.0, "g": 1e3}


def check_rate(key: str, rate: str) -> None:
    """Raises ValueError, which names the option `key`, unless tc would read this rate."""
    if not RATE.fullmatch(rate):
        raise ValueError(f"{key}={rate}: must be a rate such as 100mbit or 1gbit")


def check_possible() -> None:
    """Raises ValueError that says what is missing: Linux, iproute2 or root."""
    missing = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if missing:
        packages = "iproute2 and util-linux"
        raise ValueError(f"{', '.join(missing)}: not found; the network lab needs Linux with {packages}, and root")
    if os.geteuid() != 0:
        raise ValueError("the network lab makes network namespaces, for which it must run as root (sudo)")


@contextmanager
def hosts(count: int, rate: str) -> Iterator[list[str]]:
    """`count` hosts with `DEVICE` at `address(i)`, both directions of each link limited to `rate`; their names.

    Whatever is left of labs whose process is gone is removed first, and this lab at the end, with all that runs in it.
    """
    remove_leftovers()
    owner = f"{PREFIX}-{os.getpid()}-{_started(os.getpid())}"
    switch, names = f"{owner}-switch", [f"{owner}-{i}" for i in range(count)]
    try:
        _run("ip", "netns", "add", switch)
        _run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "br0", "up")
        for i, name in enumerate(names):
            _add_host(name, i, switch, rate)
        yield names
    finally:
        _remove([name for name in _namespaces() if name.startswith(f"{owner}-")])


def set_rate(names: Sequence[str], rate: str) -> None:
    """Change the rate of all links of a lab, from inside it or from outside."""
    for number, name in enumerate(names):
        _limit(name, number, f"{name.rpartition('-')[0]}-switch", rate)


def megabits(rate: str) -> float:
    """100mbit -> 100, 1gbit -> 1000."""
    return float(rate[:-4]) * UNITS[rate[-4]]


def address(host: int) -> str:
    """The address of a host."""
    return f"10.77.0.{host + 1}"


def remove_leftovers() -> list[str]:
    """Remove the namespaces of processes that are gone, and what runs in them; returns their names."""
    left = []
    for name in _namespaces():
        found = re.fullmatch(rf"{PREFIX}-(\d+)-(\d+)-\w+", name)
        if found and _started(int(found[1])) != int(found[2]):
            left.append(name)
    _remove(left)
    return left


def _add_host(name: str, number: int, switch: str, rate: str) -> None:
    port = f"port{number}"
    _run("ip", "netns", "add", name)
    _run("ip", "link", "add", DEVICE, "netns", name, "type", "veth", "peer", "name", port, "netns", switch)
    _run("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
    _run("ip", "-n", name, "addr", "add", f"{address(number)}/24", "dev", DEVICE)
    _run("ip", "-n", name, "link", "set", DEVICE, "up")
    _run("ip", "-n", name, "link", "set", "lo", "up")
    _limit(name, number, switch, rate)


def _limit(name: str, number: int, switch: str, rate: str) -> None:
    for namespace, device in ((name, DEVICE), (switch, f"port{number}")):  # out of the host, and into it
        _run("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, *BUCKET)


def _namespaces() -> list[str]:
    return [line.split()[0] for line in _run("ip", "netns", "list").splitlines() if line.strip()]


def _remove(names: Sequence[str]) -> None:
    for name in names:
        for pid in map(int, _run("ip", "netns", "pids", name).split()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _run("ip", "netns", "delete", name)


def _started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout
