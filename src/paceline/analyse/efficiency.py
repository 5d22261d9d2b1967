"""How near a recording's kernels come to what their device can do: `summarise_efficiency`.

Of a job on processors the operators are its kernels, and each rank is a device of its own. Rates
are of the work that recorded shapes tell; the roofline is the device's: a data sheet's, or what was
measured. Kernels of unknown work count in times alone. Utilisation counts the arithmetic of
products that ran, so what was computed again for want of memory counts twice. Operators whose
tensors lie in a processor's caches pass the roofline of its memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paceline.cluster import Device
from paceline.cost.achieved import Achieved, rate_of, sheet
from paceline.cost.ported import (
    PRODUCTS,
    Kernels,
    peak_ns,
    recorded_device,
    roof_ns,
    tail,
    working_rows,
)
from paceline.graph import Basis, DepKind, DeviceKind, DType, Graph
from paceline.graph.graph import Int64
from paceline.graph.links import Links
from paceline.graph.work import Family
from paceline.replay import Timeline
from paceline.replay.beside import Beside, beside
from paceline.replay.steps import step_times
from paceline.trace.shapes.limits import TIMER_NS, Limits

_SEEN = (Basis.RECORDED, Basis.WALL)

Float = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True)
class Reached:
    """Kernels of one class or of one work."""

    name: str
    calls: int
    took_ns: int
    share: float  # of all kernels' time
    known: float  # part of its time whose work is known; rates are of that part
    inferred: float  # of this, what names and likes tell, not the kernel's own operator
    flops_per_s: float
    bytes_per_s: float
    of_roofline: float  # 0 unknown
    of_peak: float  # products: of the rate of their type; others: of the memory's; 0 unknown
    lost_ns: int  # above the roofline
    tail: float  # part of its waves that stays empty, by time


@dataclass(frozen=True)
class Gaps:
    """Time in which no kernel ran between the first and the last of a device, summed."""

    idle_ns: int
    launch_bound_ns: int  # of it, where the next kernel was launched only once the device was idle
    whole_ns: int


@dataclass(frozen=True)
class Efficiency:
    """All of it."""

    device: str
    source: str
    classes: tuple[Reached, ...]  # the costliest first
    worst: tuple[Reached, ...]  # by the time above their roofline
    gaps: Gaps
    beside: Beside
    utilisation: float  # of the device's rate for the type of most products, over the step
    utilisation_type: str
    known: float  # part of the kernels' time
    flops_per_s: Mapping[str, float]  # the device's rates of products, by type
    beyond: float = 0.0  # part of that time in which shapes, not believed then, ask too much of it
    unknown: Mapping[str, float] = field(default_factory=dict)
    """Kernels of unknown work by name, the costliest first, each with its part of all time."""
    imagined: bool = False  # nothing of it was seen: rules know its operators, or nobody does


def summarise_efficiency(
    timeline: Timeline, device: Device | None = None, top: int = 8
) -> Efficiency:
    """Against the device that is given, else against the one that was recorded on."""
    graph = timeline.graph
    rows, on = working_rows(graph), device or recorded_device(graph)
    table = _Table.of(graph, rows, on)
    dtype, used = _utilisation(timeline, rows[table.known], on)
    whole = max(table.dur.sum(), 1)
    return Efficiency(
        device=on.name,
        source=on.source,
        classes=tuple(_grouped(table, table.family, _family_names())),
        worst=tuple(_worst(table, graph, top)),
        gaps=_gaps(timeline, rows),
        beside=beside(timeline, rows),
        utilisation=used,
        utilisation_type=dtype.name.lower(),
        known=float(table.dur[table.known].sum() / whole),
        beyond=float(table.dur[table.beyond].sum() / whole),
        flops_per_s={kind.name.lower(): rate for kind, rate in on.flops_per_s.items()},
        unknown=_unknown(graph, rows, table, top),
        imagined=not np.isin(graph.ops.basis[rows], _SEEN).any(),
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """One row per kernel."""

    dur: Int64
    work: Int64
    family: Int64
    known: Any
    beyond: Any
    inferred: Any
    flops: Int64
    size: Int64
    roof_ns: Float
    peak_ns: Float
    tail: Float

    @staticmethod
    def of(graph: Graph, rows: Int64, device: Device) -> "_Table":
        kernels, rates = Kernels.of(graph, rows), sheet(device)
        works = [each.work for each in graph.works]
        family = np.array([*(work.family for work in works), Family.OTHER], np.int64)
        roofs = np.array([*(roof_ns(work, rates) for work in works), 0.0])
        peaks = np.array([*(peak_ns(work, rates) for work in works), 0.0])
        tails = np.array([*(tail(each.launch, device) for each in graph.works), 0.0])
        work = kernels.work
        known = np.array([*(each.is_known for each in works), False])[work]
        beyond = known & _beyond(kernels, device)
        return _Table(
            dur=kernels.dur_ns,
            work=work,
            family=family[work],
            known=known & ~beyond,
            beyond=beyond,
            inferred=np.array([*(each.inferred for each in graph.works), False])[work],
            flops=graph.ops.flops[rows],
            size=graph.ops.size_bytes[rows],
            roof_ns=roofs[work] * kernels.share,
            peak_ns=peaks[work] * kernels.share,
            tail=tails[work],
        )


def _beyond(kernels: Kernels, device: Device) -> Any:
    """Kernels that took less time than the device needs: shapes that are told wrongly, or another
    device. What a recording itself tells of its device was looked at when it was read."""
    sheet_known = device.kind is DeviceKind.GPU and not device.reached
    limits = Limits(device if sheet_known else None)
    least = np.array([*(limits.least_ns(each.work) for each in kernels.works), 0.0])
    return least[kernels.work] * kernels.share > np.maximum(kernels.dur_ns, TIMER_NS)


def _family_names() -> dict[int, str]:
    return {family: family.name.lower().replace("_", " ") for family in Family}


def _grouped(table: _Table, key: Int64, names: dict[int, str]) -> list[Reached]:
    found = [_reached(table, key == number, names[number]) for number in np.unique(key).tolist()]
    return sorted(found, key=lambda row: -row.took_ns)


def _reached(table: _Table, mine: Any, name: str) -> Reached:
    took = int(table.dur[mine].sum())
    sure = mine & table.known
    known_ns = int(table.dur[sure].sum())
    roof = float(table.roof_ns[sure].sum())
    per_s = 1e9 / known_ns if known_ns else 0.0
    return Reached(
        name=name,
        calls=int(mine.sum()),
        took_ns=took,
        share=took / max(int(table.dur.sum()), 1),
        known=known_ns / took if took else 0.0,
        inferred=float(table.dur[sure & table.inferred].sum() / known_ns) if known_ns else 0.0,
        flops_per_s=float(table.flops[sure].sum()) * per_s,
        bytes_per_s=float(table.size[sure].sum()) * per_s,
        of_roofline=roof / known_ns if known_ns else 0.0,
        of_peak=float(table.peak_ns[sure].sum()) / known_ns if known_ns else 0.0,
        lost_ns=max(round(known_ns - roof), 0),
        tail=float((table.tail * table.dur)[mine].sum() / took) if took else 0.0,
    )


def _worst(table: _Table, graph: Graph, top: int) -> list[Reached]:
    """Works whose kernels lose most, each operator with its dimensions."""
    places = [_spelled(graph, number) for number in range(len(graph.works))]
    index = {name: at for at, name in enumerate(dict.fromkeys(places))}
    key = np.array([*(index[name] for name in places), len(index)], np.int64)[table.work]
    names = {**{at: name for name, at in index.items()}, len(index): "unknown"}
    found = [row for row in _grouped(table, key, names) if row.known]
    return sorted(found, key=lambda row: -row.lost_ns)[:top]


def _unknown(graph: Graph, rows: Int64, table: _Table, top: int) -> dict[str, float]:
    names, which = np.unique(graph.ops.name[rows[~table.known]], return_inverse=True)
    took = np.bincount(which, table.dur[~table.known], len(names)) / max(table.dur.sum(), 1)
    order = np.argsort(-took, kind="stable")[:top]
    return {graph.names[int(names[at])]: float(took[at]) for at in order.tolist()}


def _spelled(graph: Graph, number: int) -> str:
    """An operator with its dimensions, as in `mm 512 x 2048 x 512`."""
    recorded = graph.works[number]
    dims = vars(recorded.work.dims)
    sizes = " ".join(f"{name} {size:,}" for name, size in dims.items() if size not in (0, False))
    name = recorded.operator.removeprefix("aten::") or recorded.work.family.name.lower()
    return f"{name}: {sizes}"


def _utilisation(timeline: Timeline, rows: Int64, device: Device) -> tuple[DType, float]:
    """Arithmetic of products per second and device, of the rate for their most common type."""
    graph = timeline.graph
    products = [each.work.family in PRODUCTS for each in graph.works]
    mine = rows[np.array([*products, False])[graph.ops.work[rows]]]
    flops = graph.ops.flops[mine]
    if not flops.sum():
        return DType.NONE, 0.0
    dtype = DType(int(np.bincount(graph.ops.dtype[mine], flops).argmax()))
    devices = len(np.unique(_devices(graph, rows)))
    whole = sum(step_times(timeline).lasted_ns) * devices / 1e9
    rates: Achieved = sheet(device)
    return dtype, float(flops.sum() / whole / rate_of(rates, dtype))


def _gaps(timeline: Timeline, rows: Int64) -> Gaps:
    graph = timeline.graph
    links = Links.of(graph)
    launch = links.kind == DepKind.LAUNCH
    asked = np.zeros(len(graph), np.int64)
    np.maximum.at(asked, links.op[launch], timeline.end_ns[links.src[launch]])
    idle = bound = whole = 0
    on = _devices(graph, rows)
    for device in np.unique(on).tolist():
        mine = rows[on == device]
        mine = mine[np.argsort(timeline.start_ns[mine], kind="stable")]
        start, end = timeline.start_ns[mine], np.maximum.accumulate(timeline.end_ns[mine])
        gap = np.maximum(start[1:] - end[:-1], 0)
        idle += int(gap.sum())
        bound += int(gap[asked[mine[1:]] >= end[:-1]].sum())
        whole += int(end[-1] - start[0])
    return Gaps(idle, bound, whole)


def _devices(graph: Graph, rows: Int64) -> Int64:
    """On which device of which rank each kernel ran."""
    ranks, devices = graph.ops.rank[rows], graph.lanes.device[graph.ops.lane[rows]]
    return np.asarray(ranks.astype(np.int64) * len(graph.devices) + devices, np.int64)
