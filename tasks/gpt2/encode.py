"""Documents to token ids over several processes, in order and in bounded memory."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tasks.gpt2.bpe import Bpe
from tasks.gpt2.source import Piece

WAITING_PIECES = 4  # a process; enough that reading and encoding don't wait for each other

_bpe: Bpe  # in a worker process


def encode_pieces(pieces: Iterable[Piece], bpe: Bpe, processes: int) -> Iterator[tuple[list[np.ndarray], Any]]:
    """For each piece its documents' ids (uint16) and its state, in order; one process encodes in this one."""
    if processes == 1:
        yield from ((bpe.encode(texts), state) for texts, state in pieces)
        return
    waiting: deque[tuple[Future[list[np.ndarray]], Any]] = deque()
    setup = (bpe.tokenizer.to_str(), bpe.end_of_text)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_start_worker, initargs=setup) as pool:
        for texts, state in pieces:
            waiting.append((pool.submit(_encode, texts), state))
            if len(waiting) > WAITING_PIECES * processes:
                future, state = waiting.popleft()
                yield future.result(), state
        for future, state in waiting:
            yield future.result(), state


def _start_worker(tokenizer: str, end_of_text: int) -> None:
    global _bpe
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _bpe = Bpe(Tokenizer.from_str(tokenizer), end_of_text)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _encode(texts: list[str]) -> list[np.ndarray]:
    return _bpe.encode(texts)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
