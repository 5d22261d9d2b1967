"""`replay`: a graph in, a timeline out, by the native engine or by the plain-Python reference."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from paceline import cost
from paceline.cluster import Cluster
from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import NONE, UNPRICED, FoldedGraph, Graph
from paceline.graph.graph import Int64
from paceline.graph.law import check_columns
from paceline.replay.columns import Columns
from paceline.replay.contention import (
    ContendedPace,
    Contention,
    Slowdown,
    check_contention,
    sorts,
)
from paceline.replay.flows import flows
from paceline.replay.pace import FixedPace, OwnPace, SplitPace, Transfers
from paceline.replay.program import program
from paceline.replay.reference import replay_reference
from paceline.replay.stuck import stuck
from paceline.replay.timeline import Timeline

LONGEST_NS = 2**62
"""Durations may sum to this much (146 years): no time on a timeline can then overflow int64."""


class Engine(Enum):
    """Who replays: the compiled core, or its specification in plain Python."""

    NATIVE = "native"
    REFERENCE = "reference"


class Network(Enum):
    """What communication takes its time from."""

    CLOSED = "closed"  # a closed form, alone on the network
    FLOWS = "flows"  # flows that share the cluster's links with all that is under way


def replay(
    graph: Graph | FoldedGraph,
    cluster: Cluster | None = None,
    *,
    prices: Int64 | None = None,
    network: Network = Network.CLOSED,
    contention: Contention | None = None,
    transfers: Transfers | None = None,
    engine: Engine | None = None,
) -> Timeline:
    """When every op runs.

    Durations are the graph's own; or, with `cluster`, what `paceline.cost` prices them at; or
    `prices`, in ns, one an op. `contention` slows compute and communication that overlap on a
    device. `transfers` hands ops over to a simulator of shared links; `network=FLOWS` does so with
    the links of the cluster. Without `engine` the native one is used where it was built, else the
    reference. The timeline of a folded graph says so.
    """
    folded = graph if isinstance(graph, FoldedGraph) else None
    graph = graph.graph if isinstance(graph, FoldedGraph) else graph
    chosen = chosen_engine(engine)
    if network is Network.FLOWS:
        transfers = shared_links(graph, cluster, transfers, chosen)
    if transfers is not None:
        _refuse_folded(folded)
    job = Job.of(graph, durations(graph, cluster, prices), contention, transfers)
    run = _native if chosen is Engine.NATIVE else _reference
    return Timeline(graph, job.dur_ns, run(job), folded)


@dataclass(frozen=True, eq=False)
class Job:
    """One replay to be made."""

    graph: Graph
    dur_ns: Int64  # 0 for carried ops
    contention: Contention | None
    transfers: Transfers | None

    @classmethod
    def of(
        cls,
        graph: Graph,
        dur_ns: Int64,
        contention: Contention | None,
        transfers: Transfers | None,
    ) -> "Job":
        """Checked; durations of ops that `transfers` carries do not matter."""
        if transfers is not None:
            if transfers.carried.shape != (len(graph),):
                raise ReplayError("transfers.carried needs one row for each op of the graph")
            dur_ns = np.where(transfers.carried, 0, dur_ns)
        dur_ns = checked_durations(graph, dur_ns)
        if contention is not None:
            check_contention(graph, contention, dur_ns)
        return cls(graph, dur_ns, contention, transfers)


def shared_links(
    graph: Graph, cluster: Cluster | None, transfers: Transfers | None, engine: Engine
) -> Transfers:
    """The transfers that `network=FLOWS` asks for."""
    if cluster is None or transfers is not None:
        raise ReplayError("network=FLOWS needs a cluster, and no transfers beside it")
    return flows(graph, cluster, reference=engine is Engine.REFERENCE)


def _refuse_folded(folded: FoldedGraph | None) -> None:
    if folded is not None and folded.ranks > len(folded.representatives):
        raise ReplayError(
            f"a folded graph stands for {folded.ranks} ranks but draws "
            f"{len(folded.representatives)}: links cannot be shared with ranks that are not there; "
            "replay the whole graph instead"
        )


def durations(graph: Graph, cluster: Cluster | None, prices: Int64 | None) -> Int64:
    """The graph's own, priced ones, or those that were given."""
    if prices is None:
        return graph.ops.dur_ns if cluster is None else cost.prices(graph, cluster).dur_ns
    if cluster is not None:
        raise ReplayError("give a cluster or prices, not both: either decides all durations")
    return prices


def chosen_engine(engine: Engine | None) -> Engine:
    """The engine asked for; where none was, the native one if it was built."""
    if engine is Engine.NATIVE and native() is None:
        raise ReplayError(
            "engine NATIVE was asked for, but the native core is not built or is turned off. "
            "Install with a C++ compiler, unset PACELINE_ENGINE, or use Engine.REFERENCE."
        )
    return engine or (Engine.NATIVE if native() else Engine.REFERENCE)


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


def _reference(job: Job) -> Columns:
    check_columns(job.graph)
    own: OwnPace = FixedPace(job.dur_ns)
    if job.contention is not None:
        own = ContendedPace(job.graph, job.contention, job.dur_ns)
    return replay_reference(job.graph, SplitPace(job.transfers, own) if job.transfers else own)


def _native(job: Job) -> Columns:
    shared = shared_of(job)
    compiled = program(job.graph, events=shared is not None)
    if compiled.by_pull:
        ready, start, end = compiled.pull(job.dur_ns)
        return Columns(ready, start, end, None, None, np.zeros((0, 2), np.int32))
    priority = np.ascontiguousarray(job.graph.ops.priority)
    ready, start, end, previous, order, drained, ended = compiled.events(
        job.dur_ns, priority, shared
    )
    if ended < len(job.graph):
        raise stuck(job.graph, end != NONE, ready)
    return Columns(ready, start, end, previous, order, drained.reshape(-1, 2))


def shared_of(job: Job) -> Any:
    """What ops share, for the native engine; None where every op takes its own time."""
    if job.contention is None and job.transfers is None:
        return None
    core = native()
    assert core is not None, "chosen_engine names NATIVE only where it was built"
    devices = (Slowdown(),) * len(job.graph.devices)
    contention = job.contention or Contention(devices)
    carried = job.transfers.carried if job.transfers else np.zeros(len(job.graph), np.bool_)
    return core.Shared(
        sort=sorts(job.graph),
        device=np.ascontiguousarray(job.graph.lanes.device),
        slowed=contention.speeds().ravel(),
        carried=carried.astype(np.uint8),
        pace=job.transfers.start() if job.transfers else None,
    )
