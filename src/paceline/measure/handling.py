"""`Handling`: what messages between workers in Python take of a worker's processor."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from paceline.measure.errors import MeasureError

TICK_NS = 4e6
"""The system's, 250 times a second as Debian's kernels have it."""


@dataclass(frozen=True)
class Handling:
    """Of all of a worker's threads, in ns: the library's, the sockets', and Python's around them,
    but not what puts a message into bytes and back."""

    call_ns: float = 0.0  # of telling each other the sizes of messages, whoever else there is
    peer_ns: float = 0.0  # the same, for each other worker
    message_ns: float = 0.0  # of each message that goes or comes
    byte_ns: float = 0.0
    sum_ns: float = 0.0  # of an all-reduce, whoever else there is
    sum_peer_ns: float = 0.0  # the same, for each other worker
    sum_byte_ns: float = 0.0  # for each byte that a ring sends of it
    cold_ns: float = 0.0  # what a rest costs the work behind it, where other workers had the caches
    stall_ns: float = 0.0  # how much later each message comes than processors and links explain

    def told_ns(self, workers: int) -> float:
        """All workers tell each other how large their messages are."""
        return self.call_ns + self.peer_ns * (workers - 1) if workers > 1 else 0.0

    def carried_ns(self, size_bytes: int) -> float:
        """One end of a message."""
        return self.message_ns + self.byte_ns * size_bytes

    def summed_ns(self, workers: int, size_bytes: int) -> float:
        if workers == 1:
            return 0.0
        sent = 2 * (workers - 1) / workers * size_bytes
        return self.sum_ns + self.sum_peer_ns * (workers - 1) + self.sum_byte_ns * sent

    def stalled_ns(self, workers: int, cores: float, on_links_ns: Iterable[float] = ()) -> float:
        """Of each message among workers that share so many cores; the mean, where messages take so
        long on their links. A stall lasts until the system's next tick, and a message of which more
        is still to come than that is not late for it."""
        shares = [max(0.0, 1.0 - each / TICK_NS) for each in on_links_ns] or [1.0]
        return self.stall_ns * crowding(workers, cores) * fmean(shares)


def crowding(workers: int, cores: float) -> float:
    """Workers for each core; never fewer than one, for a worker has several threads."""
    return max(1.0, workers / cores)


UNHANDLED = Handling()
"""Where it was not measured, messages take none."""


@dataclass(frozen=True)
class Handled:
    """A measurement: what was done, as often as each constant of `Handling` counts, and the
    processor time that it took."""

    counts: tuple[float, ...]
    cpu_ns: float


def sending(workers: int, messages: int, size_bytes: int, cpu_ns: float) -> Handled:
    """A call that tells sizes, and so many messages that go and as many that come."""
    ends = 2.0 * messages
    return Handled((1.0, workers - 1.0, ends, ends * size_bytes, 0.0, 0.0, 0.0), cpu_ns)


def summing(workers: int, size_bytes: int, cpu_ns: float) -> Handled:
    """An all-reduce."""
    sent = 2 * (workers - 1) / workers * size_bytes
    return Handled((0.0, 0.0, 0.0, 0.0, 1.0, workers - 1.0, sent), cpu_ns)


@dataclass(frozen=True)
class Waited:
    """Messages behind one another among workers that were all ready: time by the clock, and of a
    worker's processor."""

    workers: int
    messages: int
    wall_ns: float
    cpu_ns: float

    def stall_ns(self, cores: float) -> float:
        """For each message and each worker of a core.

        gloo's thread that reads sockets tries again and again while another thread of its worker
        holds the connection. Where it has taken that thread's core, both stand until the system's
        next tick (`TICK_NS`): few messages meet that, and it costs as much as all others together.
        """
        crowd = crowding(self.workers, cores)
        return max(0.0, self.wall_ns - self.cpu_ns * crowd) / (self.messages * crowd)


def fitted(found: Sequence[Handled], cold_ns: float = 0.0, stall_ns: float = 0.0) -> Handling:
    """The constants, none below zero, that leave the least relative errors."""
    columns = np.array([each.counts for each in found])
    took = np.array([each.cpu_ns for each in found])
    if not len(found) or not (took > 0).all():
        raise MeasureError("messages took no processor time, by this machine's clock of processes")
    constants = _least(columns / took[:, None])
    made = Handling(*(float(value) for value in constants))
    return replace(made, cold_ns=cold_ns, stall_ns=stall_ns)


def _least(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares of rows @ x = 1 for x >= 0: what would be below zero is left out, the lowest
    first."""
    kept = np.flatnonzero(rows.any(axis=0)).tolist()
    found = np.zeros(rows.shape[1])
    while kept:
        values = np.linalg.lstsq(rows[:, kept], np.ones(len(rows)), rcond=None)[0]
        if (values >= 0).all():
            found[kept] = values
            break
        del kept[int(np.argmin(values * rows[:, kept].max(axis=0)))]
    return found
