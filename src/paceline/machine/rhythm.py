"""How often something may be done whose cost must stay a small share of the time."""

from collections.abc import Callable
from time import monotonic_ns
from typing import TypeVar

T = TypeVar("T")


class Rhythm:
    """Lets an act pass as often as its own length allows: at most `share` of the time."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._due_ns = 0

    def run(self, act: Callable[[], T]) -> T | None:
        """What the act returns; None where it is not due."""
        begin = monotonic_ns()
        if begin < self._due_ns:
            return None
        done = act()
        end = monotonic_ns()
        self._due_ns = end + round((end - begin) / self._share)
        return done
