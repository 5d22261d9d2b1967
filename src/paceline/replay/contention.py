"""Compute and communication that overlap on one device slow each other: `Contention`.

While at least one op of either sort runs on a device, ops of both progress slower there, each sort
by its own factor. A collective or message progresses at the rate of its slowest running member.

Rates are whole numbers, so both engines agree to the nanosecond: an op of d ns has d * FULL units
of work, runs at FULL units a ns or, slowed, at round(FULL / factor), and ends at the first whole
nanosecond at which no work is left.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.errors import ReplayError
from paceline.graph import NONE, Graph, OpKind
from paceline.graph.graph import Int64, UInt8

FULL = 4096
"""Units of work a ns at full rate; factors are kept to 1/4096, finer than they are measured."""

LONGEST_NS = 2**50
"""Work must fit int64: FULL * LONGEST_NS is 2^62. One op may last 13 days."""

NEITHER, COMPUTES, COMMUNICATES = range(3)

SORTS: Final = dict.fromkeys(OpKind, NEITHER) | {
    OpKind.COMPUTE: COMPUTES,
    OpKind.COLLECTIVE: COMMUNICATES,
    OpKind.SEND: COMMUNICATES,
    OpKind.RECV: COMMUNICATES,
    OpKind.TRANSFER: COMMUNICATES,
}


@dataclass(frozen=True)
class Slowdown:
    """By how much the time of each sort grows while both run on a device; 1 is not at all."""

    compute: float = 1.0
    communication: float = 1.0

    def __post_init__(self) -> None:
        for factor in (self.compute, self.communication):
            if not (math.isfinite(factor) and 1 <= factor <= FULL):
                raise ReplayError(f"a slow-down must be a factor of 1 to {FULL}, not {factor}")


@dataclass(frozen=True)
class Contention:
    """A slow-down for each device of a graph."""

    devices: tuple[Slowdown, ...]

    @staticmethod
    def everywhere(graph: Graph, *, compute: float, communication: float) -> "Contention":
        return Contention((Slowdown(compute, communication),) * len(graph.devices))

    def speeds(self) -> Int64:
        """Units a ns, a row a device: of compute and of communication while both run."""
        factors = [(d.compute, d.communication) for d in self.devices]
        return np.rint(FULL / np.array(factors, np.float64).reshape(-1, 2)).astype(np.int64)


def sorts(graph: Graph) -> UInt8:
    """NEITHER, COMPUTES or COMMUNICATES for each op."""
    found: UInt8 = np.array([SORTS[kind] for kind in OpKind], np.uint8)[graph.ops.kind]
    return found


def check_contention(graph: Graph, contention: Contention, dur_ns: Int64) -> None:
    if len(contention.devices) != len(graph.devices):
        raise ReplayError(
            f"contention has slow-downs for {len(contention.devices)} devices; the graph has "
            f"{len(graph.devices)}"
        )
    if dur_ns.max() >= LONGEST_NS:
        op = graph[int(np.argmax(dur_ns))]
        raise ReplayError(f"{op} lasts 2^50 ns or more, too long for a replay with contention")


@dataclass
class _Job:
    """A running op: work left at `since`, and the rate from then on."""

    left: int
    since: int
    rate: int

    def end(self) -> int:
        return self.since - (-self.left // self.rate)  # rounded up


class ContendedPace:
    """The `Pace` of ops that slow each other, in plain Python."""

    def __init__(self, graph: Graph, contention: Contention, dur_ns: Int64) -> None:
        self._dur = dur_ns.tolist()
        self._sort = sorts(graph).tolist()
        self._device = graph.lanes.device[graph.ops.lane].tolist()
        self._instance = graph.ops.instance.tolist()
        self._slow: Sequence[Sequence[int]] = contention.speeds().tolist()
        self._running = [[0, 0, 0] for _ in graph.devices]  # ops of each sort on each device
        self._jobs: dict[int, _Job] = {}

    def begin(self, op: int, now_ns: int) -> None:
        self._jobs[op] = _Job(self._dur[op] * FULL, now_ns, FULL)
        self.accompany(op)

    def accompany(self, op: int) -> None:
        """`op` runs from now on at a pace of its own; it slows others."""
        self._running[self._device[op]][self._sort[op]] += 1

    def leave(self, op: int) -> None:
        """`op` runs no longer."""
        self._running[self._device[op]][self._sort[op]] -= 1

    def settle(self, now_ns: int) -> None:
        together: dict[int, int] = {}  # instance -> rate of its slowest running member
        for op in self._jobs:
            if (instance := self._instance[op]) != NONE:
                together[instance] = min(together.get(instance, FULL), self._rate(op))
        for op, job in self._jobs.items():
            job.left -= (now_ns - job.since) * job.rate
            job.since = now_ns
            job.rate = together.get(self._instance[op], self._rate(op))

    def next_end(self) -> int | None:
        return min((job.end() for job in self._jobs.values()), default=None)

    def take_ended(self, now_ns: int) -> list[int]:
        ended = sorted(op for op, job in self._jobs.items() if job.end() == now_ns)
        for op in ended:
            del self._jobs[op]
            self.leave(op)
        return ended

    def _rate(self, op: int) -> int:
        """Full, unless the op's device runs ops of the other sort as well."""
        sort, device = self._sort[op], self._device[op]
        _, computing, communicating = self._running[device]
        if sort == NEITHER or not (computing and communicating):
            return FULL
        slowed: int = self._slow[device][sort - COMPUTES]
        return slowed
