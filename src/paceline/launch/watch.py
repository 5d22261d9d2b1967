"""Waiting for several processes at once."""

import os
import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from paceline.errors import PacelineError
from paceline.launch.running import Running

TICK_S = 0.2


class Late(PacelineError):
    """Time was up; `left` are the numbers of the processes that had not ended."""

    def __init__(self, left: Sequence[int]) -> None:
        super().__init__(f"processes {list(left)} did not end in time")
        self.left = tuple(left)


def watch(
    started: Sequence[Running], timeout_s: float, tick: Callable[[], bool]
) -> Iterator[tuple[int, int]]:
    """Number and exit code of each process as it ends, until all have or `tick`, which is called a
    few times a second, says that it is enough."""
    deadline = time.monotonic() + timeout_s
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for number, one in enumerate(started):
            end = os.pidfd_open(one.supervisor.pid)
            stack.callback(os.close, end)
            selector.register(end, selectors.EVENT_READ, number)
        while selector.get_map():
            ready = selector.select(min(TICK_S, max(0.0, deadline - time.monotonic())))
            if tick():
                return
            for key, _ in ready:
                selector.unregister(key.fileobj)
                yield key.data, started[key.data].supervisor.wait()
            if selector.get_map() and time.monotonic() >= deadline:
                raise Late([key.data for key in selector.get_map().values()])
