"""`SharedHosts`: the machines that ranks run on, and what communication takes of their cores."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.errors import ReplayError
from paceline.graph import NONE, Graph, LaneKind, OpKind
from paceline.graph.graph import Bool, Int32, Int64
from paceline.graph.membership import WORKS

LONGEST_NS = 2**62
"""Work, as long as shared cores could make it, must stay below: no time can overflow int64."""

MOST_LOAD = 0.95
"""Messages never take all of the cores: what they wait for has to run too."""


@dataclass(frozen=True, eq=False)
class SharedHosts:
    """Which machine each rank runs on, and how many cores each machine has.

    `cpu_ns` is the processor time of each communication op, `beside_ns` what it takes more while
    threads' work takes all cores (they lose their caches to it), `turn_ns` what it waits for its
    turn with one thread at work on each core all the time; each one a row of the graph, in ns, and
    0 for work on threads, which takes a whole core.
    """

    machine: tuple[int, ...]  # by rank
    cores: tuple[float, ...]  # by machine
    cpu_ns: Int64 | None = None
    turn_ns: Int64 | None = None
    beside_ns: Int64 | None = None

    def __post_init__(self) -> None:
        if self.machine and not 0 <= min(self.machine) <= max(self.machine) < len(self.cores):
            raise ReplayError(
                f"ranks run on machines {sorted(set(self.machine))}; "
                f"cores are given for machines 0 to {len(self.cores) - 1}"
            )
        if not all(0 < cores < np.inf for cores in self.cores):
            raise ReplayError(
                f"machines have {self.cores} cores; each needs more than zero, and finitely many"
            )

    @staticmethod
    def one_machine(
        ranks: int,
        cores: float,
        cpu_ns: Int64 | None = None,
        turn_ns: Int64 | None = None,
        beside_ns: Int64 | None = None,
    ) -> "SharedHosts":
        """All ranks on one machine."""
        return SharedHosts((0,) * ranks, (cores,), cpu_ns, turn_ns, beside_ns)

    def renumbered(self, old_ids: Int64) -> "SharedHosts":
        """The same for a graph in which op i was `old_ids[i]`, or NONE where it was not there."""

        def moved(column: Int64 | None) -> Int64 | None:
            if column is None:
                return None
            return np.where(old_ids == NONE, 0, column[old_ids])

        columns = (self.cpu_ns, self.turn_ns, self.beside_ns)
        return SharedHosts(self.machine, self.cores, *map(moved, columns))


@dataclass(frozen=True, eq=False)
class HostColumns:
    """`SharedHosts` as both engines read it."""

    hosts: SharedHosts
    machine: Int32  # of each lane
    works: Bool  # one an op: it takes a whole core
    cpu_ns: Int64
    turn_ns: Int64
    beside_ns: Int64

    @classmethod
    def of(cls, graph: Graph, hosts: SharedHosts) -> "HostColumns":
        _check_ranks(graph, hosts)
        works = _takes_a_core(graph)
        return cls(
            hosts,
            np.array(hosts.machine, np.int32)[graph.lanes.rank],
            works,
            _column(graph, works, "processor times", hosts.cpu_ns),
            _column(graph, works, "waits", hosts.turn_ns),
            _column(graph, works, "processor times beside work", hosts.beside_ns),
        )

    @cached_property
    def crowd(self) -> Int64:
        """How many lanes each machine has: no more ops share its cores."""
        return np.bincount(self.machine, minlength=len(self.hosts.cores))


def _takes_a_core(graph: Graph) -> Bool:
    """Threads' work, and what is computed on a communication library's own thread: gradients that
    are unpacked there, or added up."""
    lane = graph.lanes.kind[graph.ops.lane]
    found: Bool = (lane == LaneKind.THREAD) & WORKS[graph.ops.kind]
    found |= (lane == LaneKind.COMM_THREAD) & (graph.ops.kind == OpKind.COMPUTE)
    return found


def check_hosts(graph: Graph, found: HostColumns, dur_ns: Int64, carried: Bool | None) -> None:
    """Refuse what would not apply, and work that could take longer than a timeline can tell."""
    asks = (found.cpu_ns > 0) | (found.turn_ns > 0) | (found.beside_ns > 0)
    if carried is not None and (odd := carried & asks).any():
        raise ReplayError(
            f"{graph[int(np.argmax(odd))]} is carried by transfers, which decide how long it "
            "takes; give it no processor time and no wait"
        )
    crowding = np.maximum(1.0, found.crowd / np.array(found.hosts.cores))[found.machine]
    times = crowding[graph.ops.lane]
    taken = dur_ns + found.turn_ns * times + found.cpu_ns + found.beside_ns
    longest = float(np.sum(taken * times)) / (1 - MOST_LOAD)
    if longest >= LONGEST_NS:
        raise ReplayError(
            f"on machines with {found.hosts.cores} cores the work could take {longest:.3g} ns; it "
            f"must stay below 2^62. Check the unit of durations, and the cores"
        )


def _check_ranks(graph: Graph, hosts: SharedHosts) -> None:
    highest = int(graph.lanes.rank.max(initial=-1))
    if len(hosts.machine) <= highest:
        raise ReplayError(
            f"the graph has rank {highest}; machines are given for {len(hosts.machine)}"
        )


def _column(graph: Graph, works: Bool, what: str, column: Int64 | None) -> Int64:
    if column is None:
        return np.zeros(len(graph), np.int64)
    if column.shape != (len(graph),) or column.dtype != np.int64 or (column < 0).any():
        raise ReplayError(
            f"{len(column)} {what} are given for {len(graph)} ops; give one of zero or more each, "
            "in whole ns"
        )
    if (odd := works & (column > 0)).any():
        raise ReplayError(
            f"{graph[int(np.argmax(odd))]} is work on a thread and takes a whole core; "
            f"{what} are for communication"
        )
    return np.ascontiguousarray(column)
