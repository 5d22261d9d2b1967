"""`price`: a graph whose durations fit a cluster.

Unpriced ops get a duration, communication gets a new one, recorded compute keeps its time. Rank r
runs on worker r.
`prices` gives the same as columns, each with an interval and what it rests on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Cluster, Device, Network
from paceline.cost.basis import SPREAD, Price
from paceline.cost.calls import Calls, calls_of
from paceline.cost.collectives import choose, closed_ns
from paceline.cost.compute import Efficiency, roofline_ns
from paceline.cost.errors import CostError
from paceline.cost.flows import flows_ns
from paceline.cost.rates import Fidelity, Rates
from paceline.graph import COMMUNICATION, DType, Graph, OpKind
from paceline.graph.graph import Int64, UInt8
from paceline.graph.kinds import UNPRICED, Basis
from paceline.graph.scaled import ppb

Rows = NDArray[np.int64]

_TALKS = np.isin(np.arange(len(OpKind)), COMMUNICATION)
_LAUNCHES = np.isin(np.arange(len(OpKind)), (OpKind.HOST, OpKind.WAIT))
_FREE = np.isin(np.arange(len(OpKind)), (OpKind.MARKER, OpKind.CORE_WAIT))
"""Tables by kind of op. What a thread waits for a core is no work: a model of cores adds it."""


@dataclass(frozen=True, eq=False)
class Prices:
    """One row an op."""

    dur_ns: Int64
    low_ns: Int64
    high_ns: Int64
    basis: UInt8  # Basis

    def __getitem__(self, op: int) -> Price:
        """One op's price, for reading."""
        return Price(
            dur_ns=float(self.dur_ns[op]),
            low_ns=float(self.low_ns[op]),
            high_ns=float(self.high_ns[op]),
            basis=Basis(self.basis[op]),
        )


def price(graph: Graph, cluster: Cluster | Network, rates: Rates | None = None) -> Graph:
    """The graph with durations for this cluster. Given as a network, its routes are kept."""
    found = prices(graph, cluster, rates)
    return replace(graph, ops=replace(graph.ops, dur_ns=found.dur_ns, basis=found.basis))


def prices(graph: Graph, cluster: Cluster | Network, rates: Rates | None = None) -> Prices:
    """Durations, intervals and reasons for every op."""
    rates = rates or Rates()
    network = cluster if isinstance(cluster, Network) else Network(cluster)
    cluster = network.cluster
    cluster.require(graph.world_size)
    dur = graph.ops.dur_ns.astype(np.float64)
    basis = graph.ops.basis.copy()
    _price_compute(graph, cluster, rates, dur, basis)
    later = np.isin(graph.ops.kind, COMMUNICATION) | (graph.ops.dur_ns == UNPRICED)
    _price_communication(graph, network, rates, dur, basis)
    dur = np.where(later, dur * ppb(graph), dur)
    spread = np.array([SPREAD[b] for b in Basis])[basis]
    return Prices(_ns(dur), _ns(dur / (1 + spread)), _ns(dur * (1 + spread)), basis)


def messages_of(graph: Graph, cluster: Cluster, rates: Rates) -> Int64:
    """By op: how many messages of its collective follow one another; 0 for work."""
    library, found = rates.library_of(cluster), np.zeros(len(graph), np.int64)
    calls = calls_of(graph, library)
    each = [calls.call(graph, cluster, index) for index in range(len(calls.group))]
    count = [
        sum(step.repeat for step in choose(library, call).rounds(call)) if call.members > 1 else 0
        for call in each
    ]
    found[calls.rows] = np.array(count, np.int64)[calls.which]
    return found


def _price_compute(
    graph: Graph, cluster: Cluster, rates: Rates, dur: NDArray[np.float64], basis: UInt8
) -> None:
    """Fill in unpriced ops that are no communication, one kind of device at a time."""
    ops = graph.ops
    rows = np.flatnonzero((ops.dur_ns == UNPRICED) & ~_TALKS[ops.kind])
    for device, mine in _by_device(graph, cluster, rows):
        known = rates.of(device.name, device.kind)
        kind = ops.kind[mine]
        dur[mine[_FREE[kind]]] = 0
        dur[mine[_LAUNCHES[kind]]] = known.launch_ns
        _price_work(graph, device, known, mine[~_LAUNCHES[kind] & ~_FREE[kind]], dur)
        basis[mine] = known.basis
    _price_measured(graph, rates, rows, dur, basis)


def _by_device(graph: Graph, cluster: Cluster, rows: Rows) -> list[tuple[Device, Rows]]:
    """Rows apart by the device they run on; few lanes, many ops: it is looked up by lane."""
    if not len(rows):
        return []
    lanes = graph.lanes.rank.tolist()
    devices = {rank: cluster.device_of(rank) for rank in set(lanes)}
    distinct = list(dict.fromkeys(devices.values()))
    on = np.array([distinct.index(devices[rank]) for rank in lanes])[graph.ops.lane[rows]]
    return [(device, rows[on == index]) for index, device in enumerate(distinct)]


def _price_measured(
    graph: Graph, rates: Rates, rows: Rows, dur: NDArray[np.float64], basis: UInt8
) -> None:
    """Kernels that a measured table names."""
    ops = graph.ops
    for name in rates.kernels.keys() & set(graph.names):
        mine = rows[ops.name[rows] == graph.names.index(name)]
        sizes = np.where(ops.flops[mine] > 0, ops.flops[mine], ops.size_bytes[mine])
        dur[mine] = rates.kernels[name].at(sizes.astype(np.float64))
        basis[mine] = Basis.MEASURED


def _price_work(
    graph: Graph, device: Device, known: Efficiency, work: Rows, dur: NDArray[np.float64]
) -> None:
    """Kernels on one kind of device, one element type at a time."""
    ops = graph.ops
    _refuse_unknown_work(graph, work)
    for dtype in np.unique(ops.dtype[work]):
        rows = work[ops.dtype[work] == dtype]
        dur[rows] = roofline_ns(ops.flops[rows], ops.size_bytes[rows], DType(dtype), device, known)


def _price_communication(
    graph: Graph, network: Network, rates: Rates, dur: NDArray[np.float64], basis: UInt8
) -> None:
    """Price each distinct call once. A lone member's call takes no time."""
    calls = calls_of(graph, rates.library_of(network.cluster))
    found = [_call(graph, network, rates, calls, call) for call in range(len(calls.group))]
    times, reasons = zip(*found) if found else ((), ())
    dur[calls.rows] = np.array(times, np.float64)[calls.which]
    basis[calls.rows] = np.array(reasons, np.uint8)[calls.which]


def _call(
    graph: Graph, network: Network, rates: Rates, calls: Calls, index: int
) -> tuple[float, Basis]:
    """Nanoseconds of one call, and what they rest on."""
    call = calls.call(graph, network.cluster, index)
    table = rates.calls.get((call.collective, call.members))
    if table is not None:
        return float(table.at(np.array([float(call.size_bytes)]))[0]), Basis.MEASURED
    basis = rates.library_of(network.cluster).basis
    return _call_ns(graph, network, rates, calls, index), basis


def _call_ns(graph: Graph, network: Network, rates: Rates, calls: Calls, index: int) -> float:
    group = graph.groups[int(calls.group[index])]
    call = calls.call(graph, network.cluster, index)
    if call.members < 2:
        return 0.0
    library = rates.library_of(network.cluster)
    if rates.fidelity is Fidelity.FLOWS:
        return flows_ns(choose(library, call), call, network, group.ranks, library)
    shifts: Sequence[int] = graph.facts.siblings.get(group.axis, (0,))
    return closed_ns(choose(library, call), call, network, group.ranks, library, shifts)


def _refuse_unknown_work(graph: Graph, rows: Rows) -> None:
    empty = rows[(graph.ops.flops[rows] == 0) & (graph.ops.size_bytes[rows] == 0)]
    if len(empty):
        raise CostError(
            f"{graph[int(empty[0])]} and {len(empty) - 1} more have no duration, flops or bytes, "
            "so they cannot be priced. Record them with shapes, or give them a duration."
        )


def _ns(values: NDArray[np.float64]) -> Int64:
    return np.rint(values).astype(np.int64)
