"""`Rule`: what a port does with a packet, given the backlog before it. All three switches keep it.

A packet's backlog is what a port would send before it: the queued bytes of its priority and of
those above. So the lower priorities neither drop nor mark the higher ones.
"""

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from paceline.wire.errors import WireError
from paceline.wire.switch.codes import IMPORTANCES, Code


class Verdict(Enum):
    PASS = 0
    MARK = 1  # and pass
    DROP = 2


@dataclass(frozen=True)
class Rule:
    """Of one port. `drop_bytes[i]` is the backlog above which packets of importance i are dropped;
    plain packets are dropped above `buffer_bytes`."""

    bits_per_s: int
    buffer_bytes: int
    drop_bytes: tuple[int, ...]
    mark_bytes: int  # markable packets are marked above it; 0: never

    def __post_init__(self) -> None:
        if self.bits_per_s < 8_000 or self.buffer_bytes < 1 or self.mark_bytes < 0:
            raise WireError(f"{self} has no rate of 8,000 bit/s or more, or no buffer")
        limits = self.drop_bytes
        rising = all(a <= b for a, b in pairwise(limits))
        if len(limits) != IMPORTANCES or not rising or not 0 <= limits[0] <= limits[-1]:
            raise WireError(f"drop_bytes={limits}; give {IMPORTANCES} limits that do not fall")
        if limits[-1] > self.buffer_bytes:
            raise WireError(
                f"a limit of {limits[-1]} bytes is beyond the buffer of {self.buffer_bytes}"
            )

    @staticmethod
    def graded(
        bits_per_s: int, buffer_bytes: int, least: float = 0.25, mark: float = 0.2
    ) -> "Rule":
        """Limits that rise evenly from a share of the buffer to all of it."""
        steps = [least + (1 - least) * i / (IMPORTANCES - 1) for i in range(IMPORTANCES)]
        limits = tuple(int(buffer_bytes * step) for step in steps)
        return Rule(bits_per_s, buffer_bytes, limits, int(buffer_bytes * mark))

    def limit_bytes(self, code: Code | None) -> int:
        return self.buffer_bytes if code is None else self.drop_bytes[code.importance]

    def verdict(self, after_bytes: int, code: Code | None, *, markable: bool) -> Verdict:
        """Of a packet that makes its own backlog so long."""
        if after_bytes > self.limit_bytes(code):
            return Verdict.DROP
        above = 0 < self.mark_bytes < after_bytes
        return Verdict.MARK if above and markable else Verdict.PASS
