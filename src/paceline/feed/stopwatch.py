"""`Stopwatch`: what the current thread did: time by the wall, on a core, and ready without one."""

import threading
import time
from dataclasses import dataclass, field

from paceline.machine.threads import ThreadClock, thread_clock


@dataclass(frozen=True)
class Spent:
    """Between two moments, in ns."""

    wall_ns: int
    worked_ns: int
    waited_ns: int  # ready, without a core; 0 where the kernel does not count it


@dataclass(eq=False)
class Stopwatch:
    """Of the thread that made it."""

    _clock: ThreadClock | None = field(
        default_factory=lambda: thread_clock(threading.get_native_id())
    )

    def now(self) -> tuple[int, int, int]:
        found = self._clock.read() if self._clock is not None else None
        delayed = found.delay_ns if found is not None else 0
        return time.perf_counter_ns(), time.thread_time_ns(), delayed

    def since(self, begin: tuple[int, int, int]) -> Spent:
        return Spent(*(now - then for now, then in zip(self.now(), begin)))
