"""`SharedCores`: the pace of workers that are more than the cores they run on, in plain Python.

Each running op wants a share of a core: 1 for work on a thread, less for communication, whose
processor time is `cpu_ns` of its duration. The ops of a machine get what they want where the cores
suffice; else all get the same, save those that want less (max-min fairness, as schedulers share
time). An op that gets half of what it wants takes twice as long; a collective progresses as fast
as its slowest member. While threads' work takes all cores, communication also waits for its turn at
every message: `turn_ns` is what that adds to the op with one thread at work on each core all the
time; with more threads a core it is as many times more. And it wants more processor time then,
by `beside_ns` of its duration.

Transfers that take processor time (`HostPace`) take it before all work, and evenly from every core:
the kernel works where a packet or a timer comes, whether another core is idle or not.

The native engine equals this file bit for bit (native/replay_cores.cpp): ops are looked at by id,
sums run in that order, and an op whose rate stays is not touched.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.graph import NONE, Graph
from paceline.graph.graph import Bool, Int64
from paceline.replay.hosts import MOST_LOAD, HostColumns
from paceline.replay.pace import HostPace, SplitPace

NOTHING_NS = 1e-6
"""Work that rounding alone has left."""


def fair_shares(wants: Sequence[float], whole: float) -> list[float]:
    """What each gets of `whole`, at most what it wants, the poorest served first."""
    given = [0.0] * len(wants)
    left = whole
    order = sorted(range(len(wants)), key=lambda i: wants[i])
    for served, i in enumerate(order):
        given[i] = min(wants[i], left / (len(wants) - served))
        left -= given[i]
    return given


@dataclass
class _Running:
    """An op at work: ns of work left at `since`, and how much of it passes in a ns from then on."""

    left: float
    since: int
    want: float  # share of a core
    beside: float  # what it wants more while threads' work takes all cores
    wait: float  # for its turn, as a share of its length
    rate: float = 1.0

    def __post_init__(self) -> None:
        self.end = self._end()

    def change(self, now_ns: int, rate: float) -> None:
        """From now on at this rate."""
        if rate == self.rate:
            return
        self.left -= (now_ns - self.since) * self.rate
        self.since, self.rate = now_ns, rate
        self.end = self._end()

    def _end(self) -> int:
        return self.since + (math.ceil(self.left / self.rate) if self.left > NOTHING_NS else 0)


class SharedCores:
    """The `Pace` of ops that share cores."""

    def __init__(self, graph: Graph, columns: HostColumns, dur_ns: Int64) -> None:
        self._dur = dur_ns.tolist()
        self._cpu, self._turn = columns.cpu_ns.tolist(), columns.turn_ns.tolist()
        self._beside = columns.beside_ns.tolist()
        self._works = columns.works.tolist()
        self._machine = columns.machine[graph.ops.lane].tolist()
        self._instance = graph.ops.instance.tolist()
        self._cores = columns.hosts.cores
        self._loads: Sequence[float] = [0.0] * len(self._cores)
        self._running: list[dict[int, _Running]] = [{} for _ in self._cores]

    def begin(self, op: int, now_ns: int) -> None:
        dur, length = self._dur[op], max(self._dur[op], 1)
        want = 1.0 if self._works[op] else self._cpu[op] / length
        beside, wait = self._beside[op] / length, self._turn[op] / length
        job = _Running(float(dur), now_ns, want, beside, wait)
        self._running[self._machine[op]][op] = job

    def accompany(self, op: int) -> None:
        """Carried ops take cores as `load` tells, if at all."""

    def leave(self, op: int) -> None:
        """Carried ops take cores as `load` tells, if at all."""

    def threads(self) -> list[int]:
        """How many are at work on each machine."""
        return [sum(self._works[op] for op in running) for running in self._running]

    def load(self, cores: Sequence[float]) -> None:
        """How many cores of each machine transfers take from now on."""
        self._loads = cores

    def settle(self, now_ns: int) -> None:
        own: dict[int, float] = {}
        for machine, threads in enumerate(self.threads()):
            own.update(self._rates(machine, threads))
        slowest: dict[int, float] = {}
        for op, rate in own.items():
            if (joined := self._instance[op]) != NONE:
                slowest[joined] = min(slowest.get(joined, 1.0), rate)
        for running in self._running:
            for op, job in running.items():
                job.change(now_ns, slowest.get(self._instance[op], own[op]))

    def next_end(self) -> int | None:
        return min((job.end for jobs in self._running for job in jobs.values()), default=None)

    def take_ended(self, now_ns: int) -> list[int]:
        jobs = [item for running in self._running for item in running.items()]
        ended = sorted(op for op, job in jobs if job.end == now_ns)
        for op in ended:
            del self._running[self._machine[op]][op]
        return ended

    def _rates(self, machine: int, at_work: int) -> list[tuple[int, float]]:
        """What each op of a machine would progress at, were it alone in its instance."""
        whole, jobs = self._cores[machine], sorted(self._running[machine].items())
        threads = at_work / whole  # on each core
        busy = threads >= 1
        left = 1 - min(self._loads[machine] / whole, MOST_LOAD)
        paces = [1 / (1 + job.wait * threads * busy) for _, job in jobs]
        wants = [(job.want + job.beside * busy) * pace for (_, job), pace in zip(jobs, paces)]
        shares = zip(jobs, paces, wants, fair_shares(wants, whole))
        return [
            (op, left * pace * got / want if want else pace) for (op, _), pace, want, got in shares
        ]


class CoupledPace:
    """Transfers that take processor time, and ops that share what they leave."""

    def __init__(self, carried: Bool, flows: HostPace, cores: SharedCores) -> None:
        split = SplitPace(carried, flows, cores)
        self.begin, self.next_end, self.take_ended = split.begin, split.next_end, split.take_ended
        self._flows, self._cores = flows, cores

    def settle(self, now_ns: int) -> None:
        self._flows.see(self._cores.threads())
        self._flows.settle(now_ns)
        self._cores.load(self._flows.loads())
        self._cores.settle(now_ns)
