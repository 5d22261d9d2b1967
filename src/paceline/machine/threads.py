"""How long a thread ran, and how long it stood ready without a core, as the kernel counts it.

`/proc/self/task/TID/schedstat` holds run time, run delay and turns. Its run time moves only with
the scheduler's tick, so that is read from the thread's CPU clock; the delay is exact whenever the
thread itself runs. For a thread that does not sleep, wall time = run time + delay.
"""

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

TASKS: Final = Path("/proc/self/task")
_MOST_BYTES: Final = 96  # three numbers of 64 bits
_PER_THREAD: Final = 6  # the kernel's bits for "CPU clock of one thread, by the scheduler"


class ThreadTime(NamedTuple):
    """What a thread got, since it began or between two readings. Live jobs read it at every border
    of a phase: a tuple is made in a quarter of a dataclass's time."""

    run_ns: int
    delay_ns: int  # ready to run, without a core
    turns: int  # on a core

    def since(self, earlier: "ThreadTime") -> "ThreadTime":
        return ThreadTime(
            self.run_ns - earlier.run_ns,
            self.delay_ns - earlier.delay_ns,
            self.turns - earlier.turns,
        )


Raw = tuple[bytes, int]
"""A reading as it came: what schedstat holds, and the thread's CPU clock (-1: schedstat's own run
time counts). A live job has better to do than to take it apart."""


def time_of(raw: Raw) -> ThreadTime | None:
    """None where the kernel does not count."""
    schedstat, run_ns = raw
    found = parsed(schedstat)
    return found if found is None or run_ns < 0 else found._replace(run_ns=run_ns)


def parsed(text: bytes) -> ThreadTime | None:
    """The three numbers of a schedstat file; None where the kernel does not count."""
    try:
        run, delay, turns = map(int, text.split())
    except ValueError:
        return None
    return ThreadTime(run, delay, turns) if turns else None


class ThreadClock:
    """One thread's counters, its file kept open: a reading takes about a microsecond, and three
    where its code and the kernel's are no longer in the caches."""

    def __init__(self, file: int, clock: int | None) -> None:
        """`clock`: the thread's CPU clock; None: the run time of schedstat counts."""
        self._file, self._clock = file, clock

    def raw(self) -> Raw | None:
        """None where the thread has ended."""
        try:
            text = os.pread(self._file, _MOST_BYTES, 0)
            return text, -1 if self._clock is None else time.clock_gettime_ns(self._clock)
        except OSError:
            return None

    def read(self) -> ThreadTime | None:
        """None where the thread has ended, or the kernel does not count."""
        found = self.raw()
        return found and time_of(found)

    def close(self) -> None:
        os.close(self._file)


def thread_clock(thread: int, tasks: Path = TASKS, *, running: bool = True) -> ThreadClock | None:
    """The counters of a thread of this process; None where the kernel keeps none. `running`: it may
    be read while it runs; one that sleeps whenever it is read needs no CPU clock beside."""
    try:
        file = os.open(tasks / str(thread) / "schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    made = ThreadClock(file, _cpu_clock(thread) if running and tasks == TASKS else None)
    if made.read() is None:
        made.close()
        return None
    return made


def thread_names(tasks: Path = TASKS) -> dict[int, str]:
    """System thread id -> name, of all threads of this process."""
    return {int(path.parent.name): _text(path) for path in sorted(tasks.glob("*/comm"))}


def _cpu_clock(thread: int) -> int:
    """The number of a thread's CPU clock (MAKE_THREAD_CPUCLOCK of the kernel)."""
    return (~thread << 3) | _PER_THREAD


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # a thread that has ended meanwhile
        return ""
