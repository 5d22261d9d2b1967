"""`ReplayJob`: one replay to be made, checked: a graph, its durations, and what its ops share."""

from dataclasses import dataclass

import numpy as np

from paceline.errors import ReplayError
from paceline.graph import UNPRICED, Graph
from paceline.graph.graph import Int64
from paceline.replay.contention import Contention, check_contention
from paceline.replay.hosts import HostColumns, SharedHosts, check_hosts
from paceline.replay.pace import Transfers

LONGEST_NS = 2**62
"""Durations may sum to this much (146 years): no time on a timeline can then overflow int64."""


@dataclass(frozen=True, eq=False)
class Shares:
    """What ops share with others while they run, and so slow each other."""

    contention: Contention | None = None
    transfers: Transfers | None = None
    hosts: SharedHosts | None = None

    def __post_init__(self) -> None:
        if self.contention is not None and self.hosts is not None:
            raise ReplayError(
                "cores shared by ranks already slow compute and communication that overlap; give "
                "hosts or contention, not both"
            )

    @property
    def nothing(self) -> bool:
        """Every op takes its own time."""
        return self.contention is None and self.transfers is None and self.hosts is None

    def renumbered(self, old_ids: Int64) -> "Shares":
        """The same for a graph in which op i was `old_ids[i]`, or NONE where it was not there."""
        transfers, hosts = self.transfers, self.hosts
        return Shares(
            self.contention,
            transfers and transfers.renumbered(old_ids),
            hosts and hosts.renumbered(old_ids),
        )


@dataclass(frozen=True, eq=False)
class ReplayJob:
    """One replay to be made."""

    graph: Graph
    dur_ns: Int64  # 0 for carried ops
    shares: Shares
    on_hosts: HostColumns | None

    @classmethod
    def of(cls, graph: Graph, dur_ns: Int64, shares: Shares) -> "ReplayJob":
        """Checked; durations of ops that transfers carry do not matter."""
        carried = shares.transfers.carried if shares.transfers else None
        if carried is not None:
            if carried.shape != (len(graph),):
                raise ReplayError("transfers.carried needs one row for each op of the graph")
            dur_ns = np.where(carried, 0, dur_ns)
        dur_ns = checked_durations(graph, dur_ns)
        if shares.contention is not None:
            check_contention(graph, shares.contention, dur_ns)
        on_hosts = HostColumns.of(graph, shares.hosts) if shares.hosts else None
        if on_hosts is not None:
            check_hosts(graph, on_hosts, dur_ns, carried)
        return cls(graph, dur_ns, shares, on_hosts)


def checked_durations(graph: Graph, dur_ns: Int64) -> Int64:
    """The durations, when they can be replayed; else an error that names an op."""
    if dur_ns.shape != (len(graph),) or dur_ns.dtype != np.int64:
        raise ReplayError(
            f"prices have shape {dur_ns.shape} and type {dur_ns.dtype}; "
            f"needed is int64 with one row for each of {len(graph)} ops"
        )
    if not len(graph):
        raise ReplayError("an empty graph cannot be replayed: it has no ops. Record or build one.")
    if dur_ns.min() < 0:
        op = int(np.argmax(dur_ns < 0))
        if dur_ns[op] == UNPRICED:
            raise ReplayError(
                f"{int((dur_ns == UNPRICED).sum())} ops are unpriced, first {graph[op]}: "
                "pass a cluster, or durations from paceline.cost as `prices`"
            )
        raise ReplayError(f"{graph[op]} has duration {dur_ns[op]} ns; it must not be negative")
    if np.sum(dur_ns, dtype=np.float64) >= LONGEST_NS:
        op = int(np.argmax(dur_ns))
        raise ReplayError(
            f"durations sum to 2^62 ns or more and would overflow; the longest is {graph[op]} "
            f"with {dur_ns[op]} ns. Check its unit."
        )
    return np.ascontiguousarray(dur_ns)
