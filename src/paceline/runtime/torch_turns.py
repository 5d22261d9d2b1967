"""A thread that runs exchanges of several collectives, one exchange behind the other.

DDP hands buckets over in the same order on all ranks, so all run the same collectives in turn.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

Submit = Callable[[Callable[[], None]], Any]
"""Takes an exchange, and gives a future of torch that is done once it is."""


@contextmanager
def in_turn() -> Iterator[Submit]:
    with ThreadPoolExecutor(1, "exchanges") as thread:

        def submit(exchange: Callable[[], None]) -> Any:
            future: Any = torch.futures.Future()
            thread.submit(_run, exchange, future)
            return future

        yield submit


def _run(exchange: Callable[[], None], future: Any) -> None:
    try:
        exchange()
    except Exception as error:  # noqa: BLE001  whoever waits for the future is told
        future.set_exception(error)
    else:
        future.set_result(None)
