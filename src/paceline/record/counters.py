"""`Counters`: what a rank's machine tells about its steps, read between them.

Run time and waiting for a core of the training thread, at the borders of steps and phases, and of
the communication threads; what was stolen, throttled and interrupted; the pulse. A reading of a
thread takes some three microseconds; what costs more is read only as often as a small share of the
time allows, and then stands for all steps since.
"""

import resource
import threading
import time
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

from paceline.machine import (
    PulseTaker,
    Raw,
    Rhythm,
    ThreadClock,
    ThreadTime,
    clocks_now,
    moved,
    quota_here,
    stolen_here,
    thread_clock,
    thread_names,
)
from paceline.record.sidecar import CoreTime, Counts, Pulsed

STRAIN_SHARE: Final = 0.0005
"""Of the time that reading `/proc/stat` and the control groups may take."""
COMMUNICATION_THREADS: Final = ("pt_gloo", "pt_nccl", "gloo")
"""Names that torch and gloo give to threads that move data."""


class CountDetail(IntEnum):
    """How much is recorded of a step; each includes those before it."""

    STEP = 0  # its counts
    THREADS = 1  # what each communication thread got
    PHASES = 2  # what the training thread got between the borders of phases


class Reading(NamedTuple):
    """A thread's counters at a moment; None where the kernel keeps none."""

    at_ns: int
    raw: Raw | None

    @property
    def got(self) -> ThreadTime | None:
        return self.raw.time if self.raw is not None else None


class Counters:
    """One rank's readings; `begin` and `end` stand around each step, on the training thread.

    What is read at one border stands for the next step's begin too, but for the training thread,
    which works between steps.
    """

    def __init__(self, *, pulses: PulseTaker | None) -> None:
        """`pulses`: None on all but one rank of a host, whose pulse is the host's."""
        self._pulses = pulses
        self._thread = threading.get_native_id()
        self._clock = thread_clock(self._thread)
        self._others: dict[int, ThreadClock] = {}
        self._at_border: dict[int, Reading] = {}
        self._marks: list[Reading] = []
        self._stretches: list[tuple[int, Reading, Reading]] = []  # thread, begin, end
        self._detail = CountDetail.STEP
        self._clocks, self._switches = clocks_now(), _switches()
        self._strain = Rhythm(STRAIN_SHARE)
        self._stolen_ns, self._throttled_ns = _strain()

    def find_threads(self) -> None:
        """Watch the communication threads that are there."""
        for thread, name in thread_names().items():
            if name.startswith(COMMUNICATION_THREADS) and thread not in self._others:
                clock = thread_clock(thread)
                if clock is not None:
                    self._others[thread] = clock
                    self._at_border[thread] = _reading(clock)

    def begin(self, detail: CountDetail) -> Pulsed | None:
        """A step begins, of which so much is to be recorded; the pulse, if one was due."""
        pulse = self._pulses.take() if self._pulses is not None else None
        self._detail = detail
        self._marks = [_reading(self._clock)]
        return Pulsed(pulse) if pulse is not None else None

    def mark(self) -> None:
        """One phase of the step ends and the next begins."""
        if self._marks and threading.get_native_id() == self._thread:
            self._marks.append(_reading(self._clock))

    def end(self) -> Counts:
        """The step ended at the last mark."""
        before, self._at_border = self._at_border, self._read_others()
        if self._detail >= CountDetail.THREADS:
            self._stretches += [(t, before[t], end) for t, end in self._at_border.items()]
        if self._detail >= CountDetail.PHASES:
            self._stretches += [(self._thread, *pair) for pair in pairwise(self._marks)]
        return self._counts()

    def times(self) -> list[CoreTime]:
        """What threads got in the steps since the last call, as far as it is recorded."""
        stretches, self._stretches = self._stretches, []
        return [time for stretch in stretches if (time := _time(*stretch)) is not None]

    def _read_others(self) -> dict[int, Reading]:
        return {thread: _reading(clock) for thread, clock in self._others.items()}

    def _counts(self) -> Counts:
        got = _between(self._marks[0], self._marks[-1])
        clocks, switches = (self._clocks, clocks_now()), (self._switches, _switches())
        self._clocks, self._switches = clocks[1], switches[1]
        strain = self._strain.run(_strain) or (self._stolen_ns, self._throttled_ns)
        stolen, throttled = strain[0] - self._stolen_ns, strain[1] - self._throttled_ns
        self._stolen_ns, self._throttled_ns = strain
        change = moved(*clocks)
        return Counts(
            run_ns=got.run_ns if got else None,
            delay_ns=got.delay_ns if got else None,
            switches=switches[1] - switches[0],
            stolen_ns=stolen,
            throttled_ns=throttled,
            jumped_ns=change.jumped_ns,
            slept_ns=change.slept_ns,
        )

    def close(self) -> None:
        for clock in (self._clock, *self._others.values()):
            if clock is not None:
                clock.close()
        self._clock = None
        self._others.clear()


def _time(thread: int, begin: Reading, end: Reading) -> CoreTime | None:
    got = _between(begin, end)
    if got is None:
        return None
    return CoreTime(
        thread=thread,
        begin_ns=begin.at_ns,
        end_ns=end.at_ns,
        run_ns=got.run_ns,
        delay_ns=got.delay_ns,
        turns=got.turns,
    )


def _reading(clock: ThreadClock | None) -> Reading:
    return Reading(time.time_ns(), clock.raw() if clock is not None else None)


def _between(begin: Reading, end: Reading) -> ThreadTime | None:
    before, after = begin.got, end.got
    return after.since(before) if before and after else None


def _switches() -> int:
    """Involuntary switches of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _strain() -> tuple[int, int]:
    """Stolen and throttled nanoseconds so far."""
    quota = quota_here()
    return stolen_here() or 0, quota.throttled_ns if quota is not None else 0
