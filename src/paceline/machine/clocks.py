"""Clocks that jump and machines that sleep: three clocks that should move alike."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

JUMP_NS: Final = 1_000_000
"""Least jump that counts."""
JUMP_SHARE: Final = 0.001
"""Time servers may bend the clock by 500 ppm: twice that is no bending."""
CLOSE_NS: Final = 50_000
"""Clocks that are read within this are read at one moment."""
TRIES: Final = 5
_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clocks(NamedTuple):
    """All at one moment."""

    wall_ns: int  # may be set
    awake_ns: int  # stands still while the machine sleeps
    elapsed_ns: int  # goes on while the machine sleeps


@dataclass(frozen=True, slots=True)
class Moved:
    """What happened between two readings; zero for nothing."""

    jumped_ns: int  # by which the wall clock was set: forward, or backward if negative
    slept_ns: int

    @property
    def steady(self) -> bool:
        return not (self.jumped_ns or self.slept_ns)


def clocks_now(read: Callable[[], tuple[Clocks, int]] | None = None) -> Clocks:
    """Read again where the thread lost its core between two of them: that is no jump."""
    read = read or _read
    found, took_ns = read()
    for _ in range(TRIES):
        if took_ns <= CLOSE_NS:
            break
        again, took_again_ns = read()
        if took_again_ns < took_ns:
            found, took_ns = again, took_again_ns
    return found


def clocks_after(before: Clocks) -> Clocks:
    """The clocks some time after an earlier reading. Where wall clock and awake clock moved alike
    nothing happened, and two of three need not be read: a live job asks at every step."""
    wall_ns, awake_ns = time.time_ns(), time.monotonic_ns()
    passed = awake_ns - before.awake_ns
    if abs(wall_ns - before.wall_ns - passed) < JUMP_NS:
        return Clocks(wall_ns, awake_ns, before.elapsed_ns + passed)
    return clocks_now()


def _read() -> tuple[Clocks, int]:
    """The clocks, and how long it took to read them."""
    begin = time.clock_gettime_ns(_BOOT)
    found = Clocks(time.time_ns(), time.monotonic_ns(), time.clock_gettime_ns(_BOOT))
    return found, found.elapsed_ns - begin


def moved(before: Clocks, after: Clocks) -> Moved:
    """How far the clocks came apart; small differences are the readings' own."""
    elapsed = after.elapsed_ns - before.elapsed_ns
    least = max(JUMP_NS, round(JUMP_SHARE * elapsed))
    jumped = (after.wall_ns - before.wall_ns) - elapsed
    slept = elapsed - (after.awake_ns - before.awake_ns)
    return Moved(jumped if abs(jumped) > least else 0, slept if slept > least else 0)
