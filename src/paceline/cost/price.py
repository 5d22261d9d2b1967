"""`price`: a graph whose durations fit a cluster.

Unpriced ops get a duration, communication gets a new one, recorded compute keeps its time. Rank r
runs on worker r.
`prices` gives the same as columns, each with an interval and what it rests on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Cluster, Device, Network
from paceline.cost.achieved import achieved_memory
from paceline.cost.basis import Price
from paceline.cost.calls import Calls, calls_of
from paceline.cost.collectives import NCCL, Call, Library, choose, closed_ns
from paceline.cost.compute import TYPICAL, Efficiency, roofline_ns
from paceline.cost.domain import in_host_ns
from paceline.cost.errors import CostError
from paceline.cost.flows import flows_ns
from paceline.cost.forecasted import forecasted
from paceline.cost.rates import Fidelity, Rates
from paceline.cost.spreads import spreads_of
from paceline.graph import DeviceKind, DType, Graph, OpKind
from paceline.graph.graph import Int64, UInt8
from paceline.graph.kinds import UNPRICED, Basis
from paceline.graph.membership import TALKS, of_kinds
from paceline.graph.scaled import ppb
from paceline.imagine.imagined_host import CALL

Rows = NDArray[np.int64]

_LAUNCHES = of_kinds((OpKind.HOST, OpKind.WAIT))
_FREE = of_kinds((OpKind.MARKER, OpKind.CORE_WAIT))
"""Tables by kind of op. What a thread waits for a core is no work: a model of cores adds it."""

_network_of = lru_cache(maxsize=8)(Network)
_closed_ns = lru_cache(maxsize=256)(closed_ns)
"""Remembered: candidates on one cluster make the same few calls again and again."""


@dataclass(frozen=True, eq=False)
class Prices:
    """One row an op. How far they may be off is found when it is asked for."""

    dur_ns: Int64
    basis: UInt8  # Basis
    borders: Callable[[], tuple[Int64, Int64]]  # the intervals' lower and upper ones

    @property
    def low_ns(self) -> Int64:
        return self._borders[0]

    @property
    def high_ns(self) -> Int64:
        return self._borders[1]

    @cached_property
    def _borders(self) -> tuple[Int64, Int64]:
        return self.borders()

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


def prices(
    graph: Graph,
    cluster: Cluster | Network,
    rates: Rates | None = None,
    calls: Calls | None = None,
) -> Prices:
    """Durations, intervals and reasons for every op. `calls` are the graph's, where they are
    known."""
    rates = rates or Rates()
    network = cluster if isinstance(cluster, Network) else _network_of(cluster)
    cluster = network.cluster
    cluster.require(graph.world_size)
    if calls is None:
        calls = calls_of(graph, cluster, rates.library_of(cluster))
    dur = graph.ops.dur_ns.astype(np.float64)
    basis = graph.ops.basis.copy()
    _price_compute(graph, cluster, rates, dur, basis)
    later = TALKS[graph.ops.kind] | (graph.ops.dur_ns == UNPRICED)
    found = [
        _call(graph, network, rates, call, group) for call, group in zip(calls.each, calls.groups)
    ]
    times, reasons = zip(*found) if found else ((), ())
    dur[calls.rows] = np.array(times, np.float64)[calls.which]
    basis[calls.rows] = np.array(reasons, np.uint8)[calls.which]
    dur = np.where(later, dur * ppb(graph), dur)
    return Prices(_ns(dur), basis, partial(borders_of, graph, basis, dur))


def borders_of(
    graph: Graph, basis: UInt8, dur_ns: NDArray[np.float64] | Int64
) -> tuple[Int64, Int64]:
    """Of the intervals around durations that rest on that."""
    spread = spreads_of(graph, basis)
    return _ns(dur_ns / (1 + spread)), _ns(dur_ns * (1 + spread))


def messages_of(graph: Graph, calls: Calls, library: Library) -> Int64:
    """By op: how many messages of its collective follow one another; 0 for work."""
    count = [
        sum(step.repeat for step in choose(library, call).rounds(call)) if call.members > 1 else 0
        for call in calls.each
    ]
    found = np.zeros(len(graph), np.int64)
    found[calls.rows] = np.array(count, np.int64)[calls.which]
    return found


def _price_compute(
    graph: Graph, cluster: Cluster, rates: Rates, dur: NDArray[np.float64], basis: UInt8
) -> None:
    """Fill in unpriced ops that are no communication, one kind of device at a time."""
    ops = graph.ops
    rows = np.flatnonzero((ops.dur_ns == UNPRICED) & ~TALKS[ops.kind])
    for device, mine in _by_device(graph, cluster, rows):
        known = rates.of(device.name, device.kind)
        kind = ops.kind[mine]
        dur[mine[_FREE[kind]]] = 0
        work = mine[~_LAUNCHES[kind] & ~_FREE[kind]]
        basis[mine] = known.basis
        launched = mine[_LAUNCHES[kind]]
        dur[launched], basis[launched] = _launch(rates, device, known)
        if device.kind is DeviceKind.GPU and known.basis is Basis.DATASHEET:
            known = _alone(known, device)
            told = forecasted(graph, device, work, rates.constants)
            dur[told.rows], basis[told.rows] = told.dur_ns, Basis.FORECAST
            work = np.setdiff1d(work, told.rows, assume_unique=True)
        _price_work(graph, device, known, work, dur)
    _price_measured(graph, rates, rows, dur, basis)


def _launch(rates: Rates, device: Device, known: Efficiency) -> tuple[float, Basis]:
    """Nanoseconds, as measured of the host beside such a device where it was."""
    calls = rates.constants.call_ns if rates.constants is not None else {}
    if device.name in calls:
        return calls[device.name] / CALL, Basis.MEASURED
    return known.launch_ns, known.basis


def _alone(known: Efficiency, device: Device) -> Efficiency:
    """Where nothing was measured, a kernel's ends take the device's least time: what its host
    spends on a launch is the host's."""
    if known is not TYPICAL[DeviceKind.GPU] or not device.memory_bytes_per_s:
        return known
    return replace(known, ramp_ns=achieved_memory(device).least_ns)


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


def _call(
    graph: Graph, network: Network, rates: Rates, call: Call, group: int
) -> tuple[float, Basis]:
    """Nanoseconds of one call, and what they rest on. A lone member's call takes no time."""
    if (known := told_ns(rates, call, network.cluster)) is not None:
        return known
    library = rates.library_of(network.cluster)
    if call.collective in rates.carriers and len(set(call.hosts)) > 1:
        return rates.carriers[call.collective](call, network), Basis.DATASHEET
    algorithm, ranks = choose(library, call), graph.groups[group].ranks
    if rates.fidelity is Fidelity.FLOWS:
        return flows_ns(algorithm, call, network, ranks, library), library.basis
    shifts = graph.facts.siblings.get(graph.groups[group].axis, (0,))
    return _closed_ns(algorithm, call, network, ranks, library, shifts), library.basis


def told_ns(rates: Rates, call: Call, cluster: Cluster) -> tuple[float, Basis] | None:
    """What is known of a call whatever the network between hosts: by a table of measurements, or
    within one host by those of such hosts, unless the library's own times were measured here."""
    table = rates.calls.get((call.collective, call.members))
    if table is not None:
        return float(table.at(np.array([float(call.size_bytes)]))[0]), Basis.MEASURED
    library = rates.library_of(cluster)
    if call.members < 2:
        return 0.0, library.basis
    if library != NCCL or rates.fidelity is Fidelity.FLOWS:
        return None
    inside = in_host_ns(call, cluster, rates.constants)
    return None if inside is None else (inside, Basis.FORECAST)


def _refuse_unknown_work(graph: Graph, rows: Rows) -> None:
    empty = rows[(graph.ops.flops[rows] == 0) & (graph.ops.size_bytes[rows] == 0)]
    if len(empty):
        raise CostError(
            f"{graph[int(empty[0])]} and {len(empty) - 1} more have no duration, flops or bytes, "
            "so they cannot be priced. Record them with shapes, or give them a duration."
        )


def _ns(values: NDArray[np.float64]) -> Int64:
    return np.rint(values).astype(np.int64)
