"""`Counters`: what a rank's machine tells about its steps, read between them.

Run time and waiting for a core of the training thread, at the borders of steps and, where those
are long enough, of phases, and of the communication threads; what was stolen, throttled and
interrupted; the pulse. A reading of a thread takes some three microseconds; what costs more is read
only as often as a small share of the time allows, and then stands for all steps since.
"""

import resource
import threading
import time
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

from paceline.machine import (
    Clocks,
    PulseTaker,
    Raw,
    Rhythm,
    Strain,
    StrainReader,
    ThreadClock,
    ThreadTime,
    clocks_after,
    clocks_now,
    moved,
    thread_clock,
    thread_names,
    time_of,
)
from paceline.record.sidecar import CoreTime, Counts, Pulsed

STRAIN_SHARE: Final = 0.0002
"""Of the time that reading `/proc/stat` and the control groups may take."""
BORDERS_SHARE: Final = 0.001
"""Of a step that readings at the borders of its phases may take."""
BORDER_NS: Final = 8_000
"""What one of them takes between pieces of work that fill the caches."""
COMMUNICATION_THREADS: Final = ("pt_gloo", "pt_nccl", "gloo")
"""Names that torch and gloo give to threads that move data."""


class CountDetail(IntEnum):
    """How much is recorded of a step; each includes those before it."""

    STEP = 0  # its counts
    THREADS = 1  # what each communication thread got
    PHASES = 2  # what the training thread got between the borders of phases


Reading = tuple[int, Raw | None]
"""A moment, and a thread's counters then; None where the kernel keeps none."""


class Border(NamedTuple):
    """What was counted for the machine and for the process where a step ended."""

    clocks: Clocks
    usage: resource.struct_rusage
    strain: Strain


class Ended(NamedTuple):
    """A step's readings as they came. To take them apart costs more than to take them, most of all
    where code and data have left the caches: that can wait (`counts_of`)."""

    first: Reading  # of the training thread
    last: Reading
    before: Border
    after: Border


class Counters:
    """One rank's readings; `begin` and `end` stand around each step, on the training thread.

    What is read at one border stands for the next step's begin too, but for what the training
    thread ran, which works between steps.
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
        self._phases = Affordable()
        self._rhythm, self._strains = Rhythm(STRAIN_SHARE), StrainReader()
        self.border = Border(clocks_now(), usage_now(), self._strains.read())

    def find_threads(self) -> None:
        """Watch the communication threads that are there."""
        for thread, name in thread_names().items():
            if name.startswith(COMMUNICATION_THREADS) and thread not in self._others:
                clock = thread_clock(thread, running=False)
                if clock is not None:
                    self._others[thread] = clock
                    self._at_border[thread] = _reading(clock)

    def begin(self, detail: CountDetail) -> Pulsed | None:
        """A step begins, of which so much is to be recorded; the pulse, if one was due."""
        pulse = self._pulses.take() if self._pulses is not None else None
        self._detail = detail
        self._phases.begin(counted=detail >= CountDetail.PHASES)
        self._marks = [_reading(self._clock)]
        return Pulsed(pulse) if pulse is not None else None

    def mark(self) -> None:
        """One phase of the step ends and the next begins."""
        if self._detail < CountDetail.PHASES or threading.get_native_id() != self._thread:
            return
        if self._phases.mark():
            self._marks.append(_reading(self._clock))

    def end(self) -> Ended:
        """The step ends now."""
        self._marks.append(_reading(self._clock))
        others, self._at_border = self._at_border, self._read_others()
        strain = self._rhythm.run(self._strains.read) or self.border.strain
        before = self.border
        self.border = Border(clocks_after(before.clocks), usage_now(), strain)
        first, last = self._marks[0], self._marks[-1]
        self._phases.end(last[0] - first[0])
        if self._detail >= CountDetail.THREADS:
            self._stretches += [(t, others[t], end) for t, end in self._at_border.items()]
        if self._detail >= CountDetail.PHASES:
            self._stretches += [(self._thread, *pair) for pair in pairwise(self._marks)]
        return Ended(first, last, before, self.border)

    def times(self) -> list[CoreTime]:
        """What threads got in the steps since the last call, as far as it is recorded."""
        stretches, self._stretches = self._stretches, []
        return [time for stretch in stretches if (time := _time(*stretch)) is not None]

    def _read_others(self) -> dict[int, Reading]:
        now = time.time_ns()
        return {thread: (now, clock.raw()) for thread, clock in self._others.items()}

    def close(self) -> None:
        for clock in (self._clock, *self._others.values()):
            if clock is not None:
                clock.close()
        self._clock = None
        self._others.clear()
        self._strains.close()


class Affordable:
    """Whether a step is long enough for readings at the borders of its phases. How many it has is
    known from the step before that was to have them."""

    def __init__(self) -> None:
        self._borders = self._before = 0  # of phases: in this step, in that one
        self._lasted_ns = 0  # that one
        self._counted = False

    def begin(self, *, counted: bool) -> None:
        """`counted`: this step is to have readings at the borders of its phases."""
        self._borders, self._counted = 0, counted

    def mark(self) -> bool:
        """Whether this border may be read."""
        self._borders += 1
        return self._before * BORDER_NS <= BORDERS_SHARE * self._lasted_ns

    def end(self, lasted_ns: int) -> None:
        if self._counted:
            self._before, self._lasted_ns = self._borders, lasted_ns


def counts_of(step: Ended) -> Counts:
    """What was counted in a step."""
    got, before, after = _between(step.first, step.last), step.before, step.after
    change = moved(before.clocks, after.clocks)
    return Counts(
        run_ns=got.run_ns if got else None,
        delay_ns=got.delay_ns if got else None,
        switches=after.usage.ru_nivcsw - before.usage.ru_nivcsw,
        stolen_ns=after.strain.stolen_ns - before.strain.stolen_ns,
        throttled_ns=after.strain.throttled_ns - before.strain.throttled_ns,
        jumped_ns=change.jumped_ns,
        slept_ns=change.slept_ns,
        busy_ns=after.strain.busy_ns - before.strain.busy_ns,
    )


def _time(thread: int, begin: Reading, end: Reading) -> CoreTime | None:
    got = _between(begin, end)
    if got is None:
        return None
    return CoreTime(
        thread=thread,
        begin_ns=begin[0],
        end_ns=end[0],
        run_ns=got.run_ns,
        delay_ns=got.delay_ns,
        turns=got.turns,
    )


def _reading(clock: ThreadClock | None) -> Reading:
    return time.time_ns(), clock.raw() if clock is not None else None


def _between(begin: Reading, end: Reading) -> ThreadTime | None:
    before, after = (raw and time_of(raw) for _, raw in (begin, end))
    return after.since(before) if before and after else None


def usage_now() -> resource.struct_rusage:
    """What the system counted for this process: `ru_minflt` page faults that needed no disk,
    `ru_nivcsw` switches against its threads' will."""
    return resource.getrusage(resource.RUSAGE_SELF)
