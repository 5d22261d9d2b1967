"""`Pace`: how long ops run once started. The seam between replay and what slows work down.

Replay decides when an op starts, a pace when it ends. `FixedPace` lets every op take its duration;
`paceline.replay.contention` has one for compute and communication that slow each other,
`paceline.replay.cores` one for ranks that share processor cores; a simulator of shared links is
another, brought in by `Transfers`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE
from paceline.graph.graph import Bool, Int64
from paceline.replay.hosts import SharedHosts


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


class HostPace(Pace, Protocol):
    """A pace of transfers that take processor time of the machines at their ends."""

    def see(self, threads: Sequence[int]) -> None:
        """How many threads are at work on each machine; given before every `settle`."""

    def loads(self) -> Sequence[float]:
        """How many cores the transfers take on each machine; asked after every `settle`."""


@dataclass(frozen=True, eq=False)
class Transfers:
    """Ops whose time depends on what else is under way, and who knows it.

    `start` makes a fresh `Pace` for one replay: a Python object, or one of the native core's
    classes derived from `Flows` (native/replay_flows.hpp), which both engines can use. Where the
    transfers take processor time, `start_on` makes one for a replay whose ranks share cores.
    `columns` tell the same as flat arrays (`paceline.replay.shared`), for an engine to which no
    object can be handed; None where there are none.
    """

    carried: Bool  # one an op: whether the pace decides when it ends
    start: Callable[[], Pace]
    start_on: Callable[[SharedHosts], HostPace] | None = None
    columns: Callable[[SharedHosts | None], Mapping[str, NDArray[Any]]] | None = None

    def renumbered(self, old_ids: Int64) -> "Transfers":
        """The same for a graph in which op i was `old_ids[i]`, or NONE where it was not there."""
        known = old_ids != NONE
        carried = np.zeros(len(old_ids), np.bool_)
        carried[known] = self.carried[old_ids[known]]
        start_on = self.start_on
        return Transfers(
            carried,
            lambda: _RenumberedPace(self.start(), old_ids),
            start_on and (lambda hosts: _RenumberedHostPace(start_on(hosts), old_ids)),
        )


class _RenumberedPace:
    """Speaks of ops by other ids than the pace behind it."""

    def __init__(self, pace: Pace, old_ids: Int64) -> None:
        self._pace, self._old = pace, old_ids.tolist()
        self._new = {old: new for new, old in enumerate(self._old)}

    def begin(self, op: int, now_ns: int) -> None:
        self._pace.begin(self._old[op], now_ns)

    def settle(self, now_ns: int) -> None:
        self._pace.settle(now_ns)

    def next_end(self) -> int | None:
        return self._pace.next_end()

    def take_ended(self, now_ns: int) -> list[int]:
        return sorted(self._new[op] for op in self._pace.take_ended(now_ns))


class _RenumberedHostPace:
    """The same for transfers that take processor time."""

    def __init__(self, pace: HostPace, old_ids: Int64) -> None:
        other = _RenumberedPace(pace, old_ids)
        self.begin, self.settle = other.begin, other.settle
        self.next_end, self.take_ended = other.next_end, other.take_ended
        self.see, self.loads = pace.see, pace.loads


class OwnPace(Pace, Protocol):
    """A pace that can be notified of ops which run beside its own."""

    def accompany(self, op: int) -> None: ...

    def leave(self, op: int) -> None: ...


class FixedPace:
    """Every op takes the duration it was given, whatever else runs."""

    def __init__(self, dur_ns: Int64) -> None:
        self._dur = dur_ns.tolist()
        self._ends: list[tuple[int, int]] = []

    def begin(self, op: int, now_ns: int) -> None:
        heappush(self._ends, (now_ns + self._dur[op], op))

    def accompany(self, op: int) -> None:
        """Nothing here depends on what else runs."""

    def leave(self, op: int) -> None:
        """Nothing here depends on what else runs."""

    def settle(self, now_ns: int) -> None:
        """Nothing here depends on what else runs."""

    def next_end(self) -> int | None:
        return self._ends[0][0] if self._ends else None

    def take_ended(self, now_ns: int) -> list[int]:
        ended, ends = [], self._ends
        while ends and ends[0][0] == now_ns:
            ended.append(heappop(ends)[1])
        return ended


class SplitPace:
    """Carried ops by one pace, all others by another that is notified of them."""

    def __init__(self, carried: Bool, flows: Pace, others: OwnPace) -> None:
        self._carried, self._flows, self._others = carried.tolist(), flows, others

    def begin(self, op: int, now_ns: int) -> None:
        if self._carried[op]:
            self._flows.begin(op, now_ns)
            self._others.accompany(op)
        else:
            self._others.begin(op, now_ns)

    def settle(self, now_ns: int) -> None:
        self._flows.settle(now_ns)
        self._others.settle(now_ns)

    def next_end(self) -> int | None:
        ends = (self._flows.next_end(), self._others.next_end())
        return min((end for end in ends if end is not None), default=None)

    def take_ended(self, now_ns: int) -> list[int]:
        carried = self._flows.take_ended(now_ns) if self._flows.next_end() == now_ns else []
        for op in carried:
            self._others.leave(op)
        return sorted([*carried, *self._others.take_ended(now_ns)])
