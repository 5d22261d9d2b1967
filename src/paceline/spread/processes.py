"""Processes of this machine, one to a core."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from paceline.spread.errors import SpreadError
from paceline.spread.pool import Held, Pool, Work, hold


@contextmanager
def processes(where: str, key: str, work: Work) -> Iterator[Pool]:
    """`where` is how many; empty: as many as this process may use cores."""
    if where and not (where.isdigit() and int(where)):
        raise SpreadError(f"processes:{where} was asked for; give a number, as in processes:4")
    workers = int(where) if where else len(os.sched_getaffinity(0))
    executor = ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=_begin, initargs=(key, work)
    )
    try:
        yield Pool(executor, Held(key), workers, (BrokenProcessPool,), die_together=True)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _begin(key: str, work: Work) -> None:
    """Ctrl-C reaches all processes of a terminal: the one that gave them work ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hold(key, work)
