"""`price`: a graph whose durations fit a cluster.

Unpriced ops get a duration, communication gets a new one.

Rank r runs on worker r of the cluster. Recorded compute keeps its time. `prices` gives the same as
columns, with the interval of each op and what it rests on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Cluster, Network
from paceline.cost.basis import SPREAD, Basis
from paceline.cost.collectives import GLOO, NCCL, Call, Library, choose, closed_ns
from paceline.cost.compute import TYPICAL, Efficiency, roofline_ns
from paceline.cost.errors import CostError
from paceline.graph import Collective, DeviceKind, DType, Graph, OpKind
from paceline.graph.graph import Int64, UInt8
from paceline.graph.kinds import NONE, UNPRICED

_TALK = (OpKind.COLLECTIVE, OpKind.SEND, OpKind.RECV, OpKind.TRANSFER)
_LAUNCH = (OpKind.HOST, OpKind.WAIT)
_FREE = (OpKind.MARKER,)


@dataclass(frozen=True)
class Rates:
    """What pricing knows beyond the cluster: efficiency by device, and the library's own time.

    Without an entry a device has the typical efficiency of its kind, and the library is NCCL among
    GPUs and gloo among CPUs.
    """

    efficiency: Mapping[str, Efficiency] = field(default_factory=dict)
    library: Library | None = None

    def of(self, name: str, kind: DeviceKind) -> Efficiency:
        return self.efficiency.get(name, TYPICAL[kind])


@dataclass(frozen=True, eq=False)
class Prices:
    """One row an op."""

    dur_ns: Int64
    low_ns: Int64
    high_ns: Int64
    basis: UInt8  # Basis


def price(graph: Graph, cluster: Cluster, rates: Rates | None = None) -> Graph:
    """The graph with durations for this cluster."""
    found = prices(graph, cluster, rates)
    return replace(graph, ops=replace(graph.ops, dur_ns=found.dur_ns))


def prices(graph: Graph, cluster: Cluster, rates: Rates | None = None) -> Prices:
    """Durations, intervals and reasons for every op."""
    rates = rates or Rates()
    cluster.require(int(graph.meta.get("world_size", 0)) or _world(graph))
    dur = graph.ops.dur_ns.astype(np.float64)
    basis = np.full(len(graph), Basis.RECORDED, np.uint8)
    _price_compute(graph, cluster, rates, dur, basis)
    _price_communication(graph, cluster, rates, dur, basis)
    spread = np.array([SPREAD[b] for b in Basis])[basis]
    return Prices(_ns(dur), _ns(dur / (1 + spread)), _ns(dur * (1 + spread)), basis)


def _price_compute(
    graph: Graph, cluster: Cluster, rates: Rates, dur: NDArray[np.float64], basis: UInt8
) -> None:
    """Fill in unpriced ops that are no communication, one device and element type at a time."""
    ops = graph.ops
    unpriced = (ops.dur_ns == UNPRICED) & ~np.isin(ops.kind, _TALK)
    for rank in np.unique(ops.rank[unpriced]):
        device = cluster.device_of(int(rank))
        known = rates.of(device.name, device.kind)
        mine = unpriced & (ops.rank == rank)
        dur[mine & np.isin(ops.kind, _FREE)] = 0
        dur[mine & np.isin(ops.kind, _LAUNCH)] = known.launch_ns
        work = mine & ~np.isin(ops.kind, _FREE + _LAUNCH)
        for dtype in np.unique(ops.dtype[work]):
            rows = np.flatnonzero(work & (ops.dtype == dtype))
            _refuse_unknown_work(graph, rows)
            dur[rows] = roofline_ns(
                ops.flops[rows], ops.size_bytes[rows], DType(dtype), device, known
            )
        basis[mine] = known.basis


def _price_communication(
    graph: Graph, cluster: Cluster, rates: Rates, dur: NDArray[np.float64], basis: UInt8
) -> None:
    """Price each kind of call once: same collective, bytes and group take the same time."""
    ops, network = graph.ops, Network(cluster)
    rows = np.flatnonzero(np.isin(ops.kind, _TALK) & (ops.group != NONE))
    keys = np.stack([ops.group[rows], ops.collective[rows], ops.size_bytes[rows]], axis=1)
    calls, which = np.unique(keys, axis=0, return_inverse=True)
    library = rates.library or _library(cluster)
    times = [_call_ns(graph, network, library, int(g), Collective(c), int(s)) for g, c, s in calls]
    dur[rows] = np.array(times)[which.ravel()]
    basis[rows] = library.basis


def _call_ns(
    graph: Graph,
    network: Network,
    library: Library,
    group: int,
    collective: Collective,
    size_bytes: int,
) -> float:
    made = graph.groups[group]
    hosts = tuple(network.cluster.place_of(rank)[0] for rank in made.ranks)
    call = Call(collective, size_bytes, hosts)
    if call.members < 2:
        return 0.0
    shifts = _siblings(graph, made.axis)
    return closed_ns(choose(library, call), call, network, made.ranks, library, shifts)


def _siblings(graph: Graph, axis: str) -> Sequence[int]:
    found: Sequence[int] = graph.meta.get("siblings", {}).get(axis, (0,))
    return found


def _library(cluster: Cluster) -> Library:
    kinds = {host.device.kind for host in cluster.hosts}
    return NCCL if kinds == {DeviceKind.GPU} else GLOO


def _refuse_unknown_work(graph: Graph, rows: NDArray[np.int64]) -> None:
    empty = rows[(graph.ops.flops[rows] == 0) & (graph.ops.size_bytes[rows] == 0)]
    if len(empty):
        raise CostError(
            f"{graph[int(empty[0])]} and {len(empty) - 1} more have no duration, flops or bytes, "
            "so they cannot be priced. Record them with shapes, or give them a duration."
        )


def _world(graph: Graph) -> int:
    return max(graph.ranks, default=-1) + 1


def _ns(values: NDArray[np.float64]) -> Int64:
    return np.rint(values).astype(np.int64)
