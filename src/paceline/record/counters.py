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


class Told(IntEnum):
    """How much is told of a step; each includes those before it."""

    STEP = 0  # its counts
    THREADS = 1  # what each communication thread got
    PHASES = 2  # what the training thread got between the borders of phases


class Reading(NamedTuple):
    """A thread's counters at a moment; None where the kernel keeps none."""

    at_ns: int
    got: ThreadTime | None


class Ended(NamedTuple):
    """What a step got."""

    counts: Counts
    times: list[CoreTime]  # of its threads and phases, as far as they are told


class Counters:
    """One rank's readings; `begin` and `end` stand around each step, on the training thread."""

    def __init__(self, *, pulses: PulseTaker | None) -> None:
        """`pulses`: None on all but one rank of a host, whose pulse is the host's."""
        self._pulses = pulses
        self._thread = threading.get_native_id()
        self._clock = thread_clock(self._thread)
        self._others: dict[int, ThreadClock] = {}
        self._marks: list[Reading] = []
        self._begun: dict[int, Reading] = {}
        self._told = Told.STEP
        self._clocks, self._switches = clocks_now(), 0
        self._strain = Rhythm(STRAIN_SHARE)
        self._stolen_ns, self._throttled_ns = _strain()

    def find_threads(self) -> None:
        """Watch the communication threads that are there."""
        for thread, name in thread_names().items():
            if name.startswith(COMMUNICATION_THREADS) and thread not in self._others:
                clock = thread_clock(thread)
                if clock is not None:
                    self._others[thread] = clock

    def begin(self, told: Told) -> Pulsed | None:
        """A step begins, of which so much is to be told; the pulse, if one was due."""
        pulse = self._pulses.take() if self._pulses is not None else None
        self._told = told
        self._clocks, self._switches = clocks_now(), _switches()
        others = self._others if told >= Told.THREADS else {}
        self._begun = {thread: _reading(clock) for thread, clock in others.items()}
        self._marks = [_reading(self._clock)]
        return Pulsed(pulse) if pulse is not None else None

    def mark(self) -> None:
        """One phase of the step ends and the next begins."""
        if self._marks and threading.get_native_id() == self._thread:
            self._marks.append(_reading(self._clock))

    def end(self) -> Ended:
        """The step ended at the last mark."""
        times = [
            _time(thread, begin, _reading(self._others[thread]))
            for thread, begin in self._begun.items()
        ]
        if self._told >= Told.PHASES:
            times += [_time(self._thread, *pair) for pair in pairwise(self._marks)]
        return Ended(self._counts(), [time for time in times if time is not None])

    def _counts(self) -> Counts:
        strain = self._strain.run(_strain) or (self._stolen_ns, self._throttled_ns)
        stolen, throttled = strain[0] - self._stolen_ns, strain[1] - self._throttled_ns
        self._stolen_ns, self._throttled_ns = strain
        got = _between(self._marks[0], self._marks[-1])
        change = moved(self._clocks, clocks_now())
        return Counts(
            run_ns=got.run_ns if got else None,
            delay_ns=got.delay_ns if got else None,
            switches=_switches() - self._switches,
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
    return Reading(time.time_ns(), clock.read() if clock is not None else None)


def _between(begin: Reading, end: Reading) -> ThreadTime | None:
    return end.got.since(begin.got) if begin.got and end.got else None


def _switches() -> int:
    """Involuntary switches of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _strain() -> tuple[int, int]:
    """Stolen and throttled nanoseconds so far."""
    quota = quota_here()
    return stolen_here() or 0, quota.throttled_ns if quota is not None else 0
