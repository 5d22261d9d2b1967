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
            thread.submit(run_into, future, exchange)
            return future

        yield submit


def run_into(future: Any, exchange: Callable[[], Any]) -> None:
    """Run it; whoever waits for the future gets its result, or the error on which it ended."""
    try:
        result = exchange()
    except Exception as error:  # noqa: BLE001
        future.set_exception(error)
    else:
        future.set_result(result)
