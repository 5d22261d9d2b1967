"""`Pace`: how long ops run once started. The seam between replay and what slows work down.

Replay decides when an op starts, a pace when it ends. `FixedPace` lets every op take its duration.
`paceline.replay.contention` has one for compute and communication that slow each other.
"""

from heapq import heappop, heappush
from typing import Protocol

from paceline.graph.graph import Int64


class Pace(Protocol):
    """Knows the ops that run now and when the next of them ends."""

    def begin(self, op: int, now_ns: int) -> None:
        """`op` starts its work now."""

    def settle(self, now_ns: int) -> None:
        """All that starts at this instant has begun: rates that depend on it may be set."""

    def next_end(self) -> int | None:
        """When the next running op ends, in ns; None where none runs."""

    def take_ended(self, now_ns: int) -> list[int]:
        """The ops that end now, ascending; they run no longer."""


class FixedPace:
    """Every op takes the duration it was given, whatever else runs."""

    def __init__(self, dur_ns: Int64) -> None:
        self._dur = dur_ns.tolist()
        self._ends: list[tuple[int, int]] = []

    def begin(self, op: int, now_ns: int) -> None:
        heappush(self._ends, (now_ns + self._dur[op], op))

    def settle(self, now_ns: int) -> None:
        """Nothing here depends on what else runs."""

    def next_end(self) -> int | None:
        return self._ends[0][0] if self._ends else None

    def take_ended(self, now_ns: int) -> list[int]:
        ended, ends = [], self._ends
        while ends and ends[0][0] == now_ns:
            ended.append(heappop(ends)[1])
        return ended
