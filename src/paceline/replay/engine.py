"""`replay`: a graph in, a timeline out, by the native engine or by the plain-Python reference."""

from enum import Enum
from typing import Any

import numpy as np

from paceline import cost
from paceline.cluster import Cluster
from paceline.engine import native, webassembly
from paceline.errors import ReplayError
from paceline.graph import NONE, FoldedGraph, Graph
from paceline.graph.graph import Int64
from paceline.graph.law import check_columns
from paceline.replay.columns import Columns
from paceline.replay.contention import ContendedPace, Contention
from paceline.replay.cores import CoupledPace, SharedCores
from paceline.replay.flows import flows
from paceline.replay.hosts import SharedHosts
from paceline.replay.job import ReplayJob, Shares
from paceline.replay.pace import FixedPace, OwnPace, Pace, SplitPace, Transfers
from paceline.replay.program import program
from paceline.replay.reference import replay_reference
from paceline.replay.shared import host_columns, own_columns, shared_columns, takes_cores
from paceline.replay.stuck import stuck
from paceline.replay.timeline import Timeline


class Engine(Enum):
    """Who replays: the compiled core, the same as WebAssembly, or their specification in plain
    Python."""

    NATIVE = "native"
    WEBASSEMBLY = "webassembly"
    REFERENCE = "reference"


class NetworkModel(Enum):
    """What communication takes its time from."""

    CLOSED = "closed"  # a closed form, alone on the network
    FLOWS = "flows"  # flows that share the cluster's links with all that is under way


def replay(
    graph: Graph | FoldedGraph,
    cluster: Cluster | None = None,
    *,
    prices: Int64 | None = None,
    network: NetworkModel = NetworkModel.CLOSED,
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
    are more than their cores. Without `engine` the native one is used where it was built, else
    WebAssembly where it is there, else the reference (also for transfers that only a Python object
    knows, which cannot be handed to WebAssembly). The timeline of a folded graph says so.
    """
    folded = graph if isinstance(graph, FoldedGraph) else None
    graph = graph.graph if isinstance(graph, FoldedGraph) else graph
    chosen = chosen_engine(engine, transfers)
    if network is NetworkModel.FLOWS:
        transfers = shared_links(graph, cluster, transfers, chosen)
    if transfers is not None or hosts is not None:
        _refuse_folded(folded)
    job = ReplayJob.of(
        graph, durations(graph, cluster, prices), Shares(contention, transfers, hosts)
    )
    return Timeline(graph, job.dur_ns, _RUNS[chosen](job), folded)


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


def chosen_engine(engine: Engine | None, transfers: Transfers | None = None) -> Engine:
    """The engine asked for; where none was, the fastest at hand that can take the transfers."""
    if engine is Engine.NATIVE and native() is None:
        raise ReplayError(
            "engine NATIVE was asked for, but the native core is not built or is turned off. "
            "Install with a C++ compiler, unset PACELINE_ENGINE, or use Engine.REFERENCE."
        )
    if engine is Engine.WEBASSEMBLY and webassembly() is None:
        raise ReplayError(
            "engine WEBASSEMBLY was asked for, but its module is not built (make wasm), wasmtime "
            "is not installed (pip install 'paceline[universal]'), or PACELINE_ENGINE turns it off"
        )
    if engine is not None or native() is not None:
        return engine or Engine.NATIVE
    python_alone = transfers is not None and transfers.columns is None
    return Engine.REFERENCE if python_alone or webassembly() is None else Engine.WEBASSEMBLY


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
    return _compiled(job, native(), shared_of(job))


def _webassembly(job: ReplayJob) -> Columns:
    return _compiled(job, webassembly(), _shared_in_module(job))


def _compiled(job: ReplayJob, core: Any, shared: Any) -> Columns:
    compiled = program(job.graph, events=shared is not None, core=core)
    if compiled.by_pull:
        ready, start, end = map(_as_int64, compiled.pull(job.dur_ns))
        return Columns(ready, start, end, None, None, np.zeros((0, 2), np.int32))
    priority = np.ascontiguousarray(job.graph.ops.priority)
    ready, start, end, previous, order, drained, ended = compiled.events(
        job.dur_ns, priority, shared
    )
    if ended < len(job.graph):
        raise stuck(job.graph, end != NONE, ready)
    ready, start, end = map(_as_int64, (ready, start, end))
    return Columns(ready, start, end, previous, order, drained.reshape(-1, 2))


def _as_int64(column: Any) -> Int64:
    """C++ calls its type `long long`, which NumPy converts again and again where it meets its own
    of the same bits."""
    return column.view(np.int64)  # type: ignore[no-any-return]


def _shared_in_module(job: ReplayJob) -> Any:
    """What ops share, in the memory of the WebAssembly module; None where nothing is."""
    if job.shares.nothing:
        return None
    core, columns = webassembly(), shared_columns(job)
    assert core is not None, "chosen_engine names WEBASSEMBLY only where it is there"
    if columns is None:
        raise ReplayError(
            "these transfers are a Python object, which WebAssembly cannot call; use "
            "Engine.REFERENCE, or transfers of shaped_links or flows"
        )
    return core.shared(columns, takes_cores(job))


def shared_of(job: ReplayJob) -> Any:
    """What ops share, for the native engine; None where every op takes its own time."""
    if job.shares.nothing:
        return None
    core = native()
    assert core is not None, "chosen_engine names NATIVE only where it was built"
    hosts = _native_hosts(core, job)
    return core.Shared(**own_columns(job), pace=_carrier(job.shares), hosts=hosts)


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
    if job.on_hosts is None:
        return None
    columns = host_columns(job)
    return core.Hosts(
        machine=columns["machine"],
        cores=columns["cores"],
        works=columns["works"],
        cpu_ns=columns["cpu"],
        turn_ns=columns["turn"],
        beside_ns=columns["beside"],
        loaded=takes_cores(job),
    )


_RUNS = {
    Engine.NATIVE: _native,
    Engine.WEBASSEMBLY: _webassembly,
    Engine.REFERENCE: _reference,
}
