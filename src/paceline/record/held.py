"""Lines of steps that wait: to write one takes longer than to take all of its readings."""

from collections.abc import Callable
from typing import Final

from paceline.record.counters import Ended, counts_of
from paceline.record.sidecar import Step

MOST: Final = 8
"""Steps whose lines a worker that is killed may lose."""


class HeldSteps:
    """Steps that ended, in order, and what was read of each."""

    def __init__(self, write: Callable[..., None]) -> None:
        self._write = write
        self._held: list[tuple[Callable[..., Step], Ended]] = []

    def hold(self, step: Callable[..., Step], ended: Ended) -> None:
        """`step` lacks its counts."""
        self._held.append((step, ended))
        if len(self._held) >= MOST:
            self.write()

    def write(self) -> None:
        """All that are held."""
        held, self._held = self._held, []
        if held:
            self._write(*(step(counts=counts_of(ended)) for step, ended in held))
