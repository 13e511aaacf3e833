"""Slow connections without root: the kernel paces what a process sends (Linux).

The limit holds for each TCP connection and direction, not for a link that several share: a worker that sends to two
others at once sends at twice the rate. `python -m scripts.netlab` limits links, and needs root.
"""

import os
import socket
import sys

from decent_core.lab.namespaces import check_rate, megabits

SO_MAX_PACING_RATE = 47  # asm-generic/socket.h; Python has no name for it


def bytes_a_second(rate: str) -> float:
    """Bytes a second of a rate as tc writes it; raises ValueError if it is none, or the system can't pace."""
    check_rate("rate", rate)
    if not sys.platform.startswith("linux"):
        raise ValueError(f"rate={rate}: connections are paced by the kernel, on Linux only")
    return megabits(rate) * 1e6 / 8


def pace_connections(bytes_per_second: float) -> int:
    """Limit all TCP connections that this process has now; returns how many. Those made later are not limited."""
    paced = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(name))
        except OSError:  # the folder's own descriptor is closed by now
            continue
        try:
            connection = socket.socket(fileno=copy)
        except OSError:  # no socket
            os.close(copy)
            continue
        with connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, int(bytes_per_second))
                paced += 1
    return paced
