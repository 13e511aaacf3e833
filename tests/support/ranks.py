"""Runs a function on n real ranks: processes joined by gloo on the loopback, with a time-out that ends them all."""

import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Any

import torch
import torch.distributed as dist

# The fork server has imported torch and more; each rank is a quick fork of it.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.support.warm"])


def run_ranks(
    function: Callable[..., Any], n: int, *arguments: Any, seconds: float = 90, group_timeout: float = 30
) -> list:
    """`function(rank, *arguments)` on n ranks; returns their results in rank order.

    An exception of a rank is re-raised here as RuntimeError with its traceback, the lowest rank's first.
    """
    outcomes = start_ranks(function, n, *arguments, group_timeout=group_timeout).collect(seconds)
    if failures := [text for ok, text in outcomes if not ok]:
        raise RuntimeError("\n".join(map(str, failures)))
    return [value for _, value in outcomes]


def start_ranks(function: Callable[..., Any], n: int, *arguments: Any, group_timeout: float = 30) -> "Ranks":
    """Start the ranks and return at once, for tests that interfere with them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return Ranks(function, n, port, arguments, group_timeout)


class Ranks:
    """Processes of one world, and the ends of their pipes."""

    def __init__(self, function: Callable, n: int, port: int, arguments: tuple, group_timeout: float):
        pipes = [CONTEXT.Pipe(duplex=False) for _ in range(n)]
        self.receivers = [receiver for receiver, _ in pipes]
        self.processes = [
            CONTEXT.Process(target=_rank, args=(function, rank, n, port, arguments, group_timeout, sender), daemon=True)
            for rank, (_, sender) in enumerate(pipes)
        ]
        for process in self.processes:
            process.start()
        for _, sender in pipes:
            sender.close()

    def collect(self, seconds: float, waited_for: int | None = None) -> list[tuple[bool, Any]]:
        """(succeeded, value or traceback) of every rank; kills what is left after `seconds`.

        `waited_for`: only the first so many ranks are waited for.
        """
        outcomes: list[tuple[bool, Any]] = [(False, f"no answer within {seconds:g} s")] * len(self.processes)
        end, open_ = time.monotonic() + seconds, dict(enumerate(self.receivers[:waited_for]))
        while open_ and (left := end - time.monotonic()) > 0:
            for receiver in wait(list(open_.values()), left):
                rank = self.receivers.index(receiver)
                del open_[rank]
                try:
                    outcomes[rank] = receiver.recv()
                except EOFError:
                    outcomes[rank] = (False, f"rank {rank} died")
        for process in self.processes:
            process.kill()
            process.join()
        return outcomes


def _rank(
    function: Callable, rank: int, n: int, port: int, arguments: tuple, group_timeout: float, sender: Any
) -> None:
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(n), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    try:
        dist.init_process_group("gloo", rank=rank, world_size=n, timeout=timedelta(seconds=group_timeout))
        sender.send((True, function(rank, *arguments)))
    except BaseException as error:  # noqa: BLE001  (a rank's failure is the parent's to report)
        sender.send((False, f"rank {rank}: {type(error).__name__}: {error}\n{traceback.format_exc()}"))
    sender.close()
    os._exit(0)
