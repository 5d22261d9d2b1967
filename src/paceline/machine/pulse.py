"""The pulse: a fixed short piece of work that tells how fast the machine is just then.

Arithmetic in the core's own caches, a copy that passes through memory, and the time until a new
thread gets a core. Durations measured at one pulse can be brought to another.
"""

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Final

from paceline.machine.rhythm import Rhythm

SHARE: Final = 0.001
"""Of the time that pulses may take; what they displace from the caches comes on top."""
ARITHMETIC_BYTES: Final = 96 * 1024  # hashed 2 KiB at a time: some 100 microseconds
MEMORY_BYTES: Final = 2 << 20  # more than a core's own caches hold
MEMORY_SHARE: Final = 0.05
"""Training of an MLP on a CPU ran 12 to 20 % longer while a neighbour made the copy ten times as
long, which is a share of 0.01 to 0.02; it is not known for other models."""
_BLOCK: Final = 2047  # hashlib lets other threads in from 2,048 bytes on


@dataclass(frozen=True)
class Pulse:
    """One reading."""

    moment_ns: int  # Unix time
    arithmetic_ns: int
    memory_ns: int
    wakeup_ns: int


@dataclass(frozen=True)
class Brought:
    """A duration as it would be at another pulse, and between which bounds."""

    ns: float
    least_ns: float
    most_ns: float


@dataclass(frozen=True)
class PulseMoved:
    """By how much longer, as shares, the pulse's arithmetic and its copy take than before."""

    arithmetic: float
    memory: float

    def __str__(self) -> str:
        return f"arithmetic takes {self.arithmetic:+.0%}, a copy through memory {self.memory:+.0%}"


class PulseTaker:
    """Takes pulses, as often as their share of the time allows."""

    def __init__(self, share: float = SHARE) -> None:
        self._rhythm = Rhythm(share)
        self._from, self._to = bytes(MEMORY_BYTES), bytearray(MEMORY_BYTES)
        self._pulse()  # the first one pays for fresh pages

    def take(self) -> Pulse | None:
        """A pulse; None where the next one is not due."""
        return self._rhythm.run(self._pulse)

    def _pulse(self) -> Pulse:
        moment = time.time_ns()
        begin = time.perf_counter_ns()
        _hash()
        hashed = time.perf_counter_ns()
        self._to[:] = self._from
        copied = time.perf_counter_ns()
        return Pulse(moment, hashed - begin, copied - hashed, _wake_ns())


def take_pulse() -> Pulse:
    """One pulse at once."""
    found = PulseTaker().take()
    assert found is not None  # the first is always due
    return found


def typical_pulse(pulses: Sequence[Pulse]) -> Pulse | None:
    """The median of each part; None of none."""
    if not pulses:
        return None
    return Pulse(*(round(median(getattr(p, item.name) for p in pulses)) for item in fields(Pulse)))


def at_pulse(
    duration_ns: float, measured_at: Pulse, wanted: Pulse, memory_share: float = MEMORY_SHARE
) -> Brought:
    """A duration that was measured at one pulse, as it would be at another.

    `memory_share` of it is taken to move as the pulse's copy does, the rest as its arithmetic. The
    share is not known well: the bounds are those of no memory at all and of four times as much.
    """
    arithmetic = _ratio(wanted.arithmetic_ns, measured_at.arithmetic_ns)
    memory = _ratio(wanted.memory_ns, measured_at.memory_ns)
    shares = (0.0, memory_share, min(1.0, 4 * memory_share))
    none, middle, most = (duration_ns * (arithmetic + s * (memory - arithmetic)) for s in shares)
    return Brought(middle, min(none, most), max(none, most))


def moved_between(before: Pulse | None, after: Pulse | None) -> PulseMoved | None:
    """How far the machine moved; None where it is not known."""
    if before is None or after is None:
        return None
    return PulseMoved(
        _ratio(after.arithmetic_ns, before.arithmetic_ns) - 1,
        _ratio(after.memory_ns, before.memory_ns) - 1,
    )


def _ratio(wanted: int, given: int) -> float:
    return wanted / given if wanted > 0 and given > 0 else 1.0


def _hash() -> None:
    digest, block = hashlib.sha256(), bytes(_BLOCK)
    for _ in range(ARITHMETIC_BYTES // _BLOCK):
        digest.update(block)


def _wake_ns() -> int:
    """From asking for a thread to its first moment on a core."""
    ran: list[int] = []
    thread = threading.Thread(target=lambda: ran.append(time.perf_counter_ns()))
    begin = time.perf_counter_ns()
    thread.start()
    thread.join()
    return ran[0] - begin
