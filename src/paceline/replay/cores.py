"""Replay on shared processor cores: workers that are more than the cores they run on.

Each running op wants a share of a core: 1 for work on a thread, less for communication, whose
processor time is `cpu_ns` of its duration. The ops of a machine get what they want where the cores
suffice; else all get the same, save those that want less (max-min fairness, as schedulers share
time). An op that gets half of what it wants takes twice as long; a collective progresses as fast
as its slowest member. While threads' work takes all cores, communication also waits for its turn at
every message: `turn_ns` is what that adds to the op with one thread at work on each core all the
time; with more threads a core it is as many times more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.errors import ReplayError
from paceline.graph import NONE, Graph, LaneKind, OpKind
from paceline.graph.graph import Int64
from paceline.graph.law import check_columns
from paceline.replay.engine import checked_durations
from paceline.replay.reference import replay_reference
from paceline.replay.timeline import Timeline

NOTHING_NS = 1e-6
"""Work that rounding alone has left."""

WORKS = (OpKind.COMPUTE, OpKind.HOST, OpKind.COPY, OpKind.DATA)


@dataclass(frozen=True)
class Cores:
    """Which machine each rank runs on, and how many cores each machine has."""

    machine: tuple[int, ...]  # by rank
    count: tuple[float, ...]  # by machine

    def __post_init__(self) -> None:
        if self.machine and not 0 <= min(self.machine) <= max(self.machine) < len(self.count):
            raise ReplayError(
                f"ranks run on machines {sorted(set(self.machine))}; "
                f"cores are given for machines 0 to {len(self.count) - 1}"
            )
        if any(cores <= 0 for cores in self.count):
            raise ReplayError(f"machines have {self.count} cores; each needs more than zero")

    @staticmethod
    def one_machine(ranks: int, cores: float) -> "Cores":
        """All ranks on one machine."""
        return Cores((0,) * ranks, (cores,))


def replay_on_cores(
    graph: Graph,
    cores: Cores,
    cpu_ns: Int64 | None = None,
    *,
    prices: Int64 | None = None,
    turn_ns: Int64 | None = None,
) -> Timeline:
    """When every op runs if the ranks share cores. `cpu_ns` is the processor time of each
    communication op, by row, and `turn_ns` what it waits for its turn; work on threads takes a
    whole core."""
    if len(cores.machine) <= max(graph.ranks, default=-1):
        raise ReplayError(
            f"the graph has rank {max(graph.ranks)}; machines are given for {len(cores.machine)}"
        )
    dur_ns = checked_durations(graph, graph.ops.dur_ns if prices is None else prices)
    check_columns(graph)
    wants = _wants(graph, dur_ns, cpu_ns)
    pace = SharedCores(graph, cores, dur_ns, wants, _waits(dur_ns, turn_ns))
    return Timeline(graph, dur_ns, replay_reference(graph, pace))


def fair_shares(wants: Sequence[float], whole: float) -> list[float]:
    """What each gets of `whole`, at most what it wants, the poorest served first."""
    given = [0.0] * len(wants)
    left = whole
    order = sorted(range(len(wants)), key=lambda i: wants[i])
    for served, i in enumerate(order):
        given[i] = min(wants[i], left / (len(wants) - served))
        left -= given[i]
    return given


def _wants(graph: Graph, dur_ns: Int64, cpu_ns: Int64 | None) -> NDArray[np.float64]:
    """Share of a core that each op wants while it runs."""
    ops = graph.ops
    on_thread = graph.lanes.kind[ops.lane] == LaneKind.THREAD
    wants = np.where(on_thread & np.isin(ops.kind, WORKS), 1.0, 0.0)
    if cpu_ns is not None:
        talks = ops.kind == OpKind.COLLECTIVE
        wants[talks] = cpu_ns[talks] / np.maximum(dur_ns[talks], 1)
    return wants


def _waits(dur_ns: Int64, turn_ns: Int64 | None) -> NDArray[np.float64]:
    """What each op waits for its turn, as a share of its length."""
    if turn_ns is None:
        return np.zeros(len(dur_ns))
    if len(turn_ns) != len(dur_ns) or (turn_ns < 0).any():
        raise ReplayError(
            f"{len(turn_ns)} waits are given for {len(dur_ns)} ops; give one of zero or more each"
        )
    return turn_ns / np.maximum(dur_ns, 1)


@dataclass
class Running:
    """An op at work: ns of work left at `since`, and how much of it passes in a ns from then on."""

    left: float
    since: int
    rate: float = 1.0

    def end(self) -> int:
        return self.since + (math.ceil(self.left / self.rate) if self.left > NOTHING_NS else 0)

    def change(self, now_ns: int, rate: float) -> None:
        """From now on at another rate."""
        self.left -= (now_ns - self.since) * self.rate
        self.since, self.rate = now_ns, rate


class SharedCores:
    """The `Pace` of ops that share cores."""

    def __init__(
        self,
        graph: Graph,
        cores: Cores,
        dur_ns: Int64,
        wants: NDArray[np.float64],
        waits: NDArray[np.float64],
    ) -> None:
        self._dur = dur_ns.tolist()
        self._wants = wants.tolist()
        self._waits = waits.tolist()
        self._works = ((wants == 1.0) & (graph.ops.kind != OpKind.COLLECTIVE)).tolist()
        self._machine = [cores.machine[rank] for rank in graph.ops.rank.tolist()]
        self._instance = graph.ops.instance.tolist()
        self._cores = cores.count
        self._running: dict[int, Running] = {}

    def begin(self, op: int, now_ns: int) -> None:
        self._running[op] = Running(float(self._dur[op]), now_ns)

    def settle(self, now_ns: int) -> None:
        for machine, whole in enumerate(self._cores):
            mine = [op for op in self._running if self._machine[op] == machine]
            threads = sum(self._works[op] for op in mine) / whole  # at work on each core
            paces = [1 / (1 + self._waits[op] * threads * (threads >= 1)) for op in mine]
            wants = [self._wants[op] * pace for op, pace in zip(mine, paces)]
            for op, pace, want, got in zip(mine, paces, wants, fair_shares(wants, whole)):
                self._running[op].change(now_ns, pace * got / want if want else pace)
        slowest: dict[int, float] = {}
        for op, job in self._running.items():
            if (joined := self._instance[op]) != NONE:
                slowest[joined] = min(slowest.get(joined, 1.0), job.rate)
        for op, job in self._running.items():
            job.rate = slowest.get(self._instance[op], job.rate)

    def next_end(self) -> int | None:
        return min((job.end() for job in self._running.values()), default=None)

    def take_ended(self, now_ns: int) -> list[int]:
        ended = sorted(op for op, job in self._running.items() if job.end() <= now_ns)
        for op in ended:
            del self._running[op]
        return ended
