"""`replay`: a graph in, a timeline out, by the native engine or by the plain-Python reference."""

from enum import Enum
from typing import Any

import numpy as np

from paceline import cost
from paceline.cluster import Cluster
from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import NONE, FoldedGraph, Graph
from paceline.graph.graph import Int64
from paceline.graph.law import check_columns
from paceline.replay.columns import Columns
from paceline.replay.contention import ContendedPace, Contention, Slowdown, sorts
from paceline.replay.cores import CoupledPace, SharedCores
from paceline.replay.flows import flows
from paceline.replay.hosts import SharedHosts
from paceline.replay.job import ReplayJob, Shares
from paceline.replay.pace import FixedPace, OwnPace, Pace, SplitPace, Transfers
from paceline.replay.program import program
from paceline.replay.reference import replay_reference
from paceline.replay.stuck import stuck
from paceline.replay.timeline import Timeline


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
    hosts: SharedHosts | None = None,
    engine: Engine | None = None,
) -> Timeline:
    """When every op runs.

    Durations are the graph's own; or, with `cluster`, what `paceline.cost` prices them at; or
    `prices`, in ns, one an op. `contention` slows compute and communication that overlap on a
    device. `transfers` hands ops over to a simulator of shared links; `network=FLOWS` does so with
    the links of the cluster. `hosts` lets ranks share the cores of machines, and slows those that
    are more than their cores. Without `engine` the native one is used where it was built, else the
    reference. The timeline of a folded graph says so.
    """
    folded = graph if isinstance(graph, FoldedGraph) else None
    graph = graph.graph if isinstance(graph, FoldedGraph) else graph
    chosen = chosen_engine(engine)
    if network is Network.FLOWS:
        transfers = shared_links(graph, cluster, transfers, chosen)
    if transfers is not None or hosts is not None:
        _refuse_folded(folded)
    job = ReplayJob.of(
        graph, durations(graph, cluster, prices), Shares(contention, transfers, hosts)
    )
    run = _native if chosen is Engine.NATIVE else _reference
    return Timeline(graph, job.dur_ns, run(job), folded)


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
            f"{len(folded.representatives)}: neither links nor cores can be shared with ranks that "
            "are not there; replay the whole graph instead"
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


def _reference(job: ReplayJob) -> Columns:
    check_columns(job.graph)
    return replay_reference(job.graph, _pace(job))


def _pace(job: ReplayJob) -> Pace:
    """Who says when ops end, in plain Python but for transfers that bring their own."""
    transfers, hosts = job.shares.transfers, job.shares.hosts
    if job.on_hosts is not None and hosts is not None:
        cores = SharedCores(job.graph, job.on_hosts, job.dur_ns)
        if transfers is not None and transfers.start_on is not None:
            return CoupledPace(transfers.carried, transfers.start_on(hosts), cores)
        own: OwnPace = cores
    elif job.shares.contention is not None:
        own = ContendedPace(job.graph, job.shares.contention, job.dur_ns)
    else:
        own = FixedPace(job.dur_ns)
    return SplitPace(transfers.carried, transfers.start(), own) if transfers else own


def _native(job: ReplayJob) -> Columns:
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


def shared_of(job: ReplayJob) -> Any:
    """What ops share, for the native engine; None where every op takes its own time."""
    shares, transfers = job.shares, job.shares.transfers
    if shares.nothing:
        return None
    core = native()
    assert core is not None, "chosen_engine names NATIVE only where it was built"
    devices = (Slowdown(),) * len(job.graph.devices)
    contention = shares.contention or Contention(devices)
    carried = transfers.carried if transfers else np.zeros(len(job.graph), np.bool_)
    return core.Shared(
        sort=sorts(job.graph),
        device=np.ascontiguousarray(job.graph.lanes.device),
        slowed=contention.speeds().ravel(),
        carried=carried.astype(np.uint8),
        pace=_carrier(shares),
        hosts=_native_hosts(core, job),
    )


def _carrier(shares: Shares) -> Pace | None:
    """The pace of what transfers carry."""
    transfers, hosts = shares.transfers, shares.hosts
    if transfers is None:
        return None
    if hosts is not None and transfers.start_on is not None:
        return transfers.start_on(hosts)
    return transfers.start()


def _native_hosts(core: Any, job: ReplayJob) -> Any:
    """Cores that ranks share; None where they do not."""
    found, transfers = job.on_hosts, job.shares.transfers
    if found is None:
        return None
    return core.Hosts(
        machine=found.machine,
        cores=np.array(found.hosts.cores, np.float64),
        works=found.works.astype(np.uint8),
        cpu_ns=found.cpu_ns,
        turn_ns=found.turn_ns,
        loaded=transfers is not None and transfers.start_on is not None,
    )
