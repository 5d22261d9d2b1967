"""Relays that lose packets, for as long as a test lasts."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from wire_ranks import Relay

from paceline.wire import Address


@pytest.fixture
def relay() -> Iterator[Callable[..., Relay]]:
    """Makes relays, and ends them."""
    with ExitStack() as stack:

        def make(to: Address, lose: Callable[[dict[str, int]], bool]) -> Relay:
            made = Relay(to, lose)
            stack.callback(made.close)
            return made

        yield make
