"""Recorded work on another device, by what both achieve.

Kernels of a GPU keep their share of what was forecast for them, or of what their device achieves
(`cost.ported`): by arithmetic, bytes and how full they keep it, where the recording tells; small
ones take the other device's least time. For work on CPU threads the geometric mean of the ratios of
memory and arithmetic rates is taken. Wrong where libraries are tuned for one device and not for the
other, such as for attention, and where a cache of one device holds what that of the other does not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import ClassVar

import numpy as np

from paceline.cluster import Device as Processor
from paceline.cluster.files import device as preset
from paceline.cost.achieved import achieved
from paceline.cost.compute import peak
from paceline.cost.forecast import Constants
from paceline.cost.ported import (
    PRODUCTS,
    Kernels,
    forecasts_of,
    kernel_rows,
    ported_ns,
    recorded_device,
)
from paceline.cost.spreads import spreads_of
from paceline.graph import UNPRICED, Basis, DeviceKind, DType, Graph, LaneKind
from paceline.graph.condense import Grain
from paceline.graph.graph import Bool, Int64
from paceline.graph.scaled import scaled, works
from paceline.graph.work import Family
from paceline.strategies.strategy import Strategy, StrategyError

_FORETOLD = (Basis.DATASHEET, Basis.FORECAST)
"""Nobody saw such a kernel: carried over, it is as uncertain as before."""

CPU = "epyc-2c"
"""What a recording without kernels is taken to have run on, where nothing names its device."""

UNSHAPED = (
    "kernels' names and grids alone, for no operator of the recording tells its shapes: "
    "torch.profiler.profile(record_shapes=True) records them"
)


@dataclass(frozen=True)
class Device(Strategy):
    grain: ClassVar[Grain] = Grain.OP  # merged kernels do not say what they worked on
    conflicts: ClassVar[frozenset[str]] = frozenset({"device"})
    how: ClassVar[str] = "Start the job on that device."

    name: str  # a preset, such as h200
    recorded: str = ""  # the one that the job was recorded on; as the recording says where empty
    constants: Constants | None = field(default=None, repr=False, compare=False)

    def priced_by(self, constants: Constants | None) -> "Device":
        return self if constants is None else replace(self, constants=constants)

    def transform(self, graph: Graph) -> Graph:
        if (graph.ops.dur_ns == UNPRICED).all():
            return graph  # imagined for no device: whoever prices it takes the new one
        origin, destination = self._origin(graph), preset(self.name)
        if origin == destination:
            return graph
        graph = replace(graph, facts=replace(graph.facts, pulse=None))
        if (graph.lanes.kind == LaneKind.STREAM).any():
            return self._kernels(graph, origin, destination)
        factor = device_factor(origin, destination, DType.FLOAT32).middle
        return scaled(graph, works(graph), factor, Basis.SCALED)

    def _origin(self, graph: Graph) -> Processor:
        on_device = bool((graph.lanes.kind == LaneKind.STREAM).any())
        return recorded_device(graph, self.recorded) if on_device else preset(self.recorded or CPU)

    def rests_on(self, graph: Graph) -> Iterator[str]:
        """By class of kernels: how much of their time, and by what it was carried over."""
        rows = kernel_rows(graph)
        if not len(rows):
            yield from self._of_threads(graph)
            return
        origin, there = self._origin(graph), preset(self.name)
        yield f"rates achieved on {self.name}: {achieved(there).source}"
        if there.unmeasured:
            yield f"{self.name}: {there.unmeasured}"
        yield f"device recorded on: {origin.source}"
        if not any(each.operator and not each.inferred for each in graph.works):
            yield UNSHAPED
        both = forecasts_of(graph.works, origin, there, self.constants)
        yield from _by_class(graph, rows, ~np.isnan(both.here_ns))

    def _of_threads(self, graph: Graph) -> Iterator[str]:
        if not (works(graph) & (graph.ops.dur_ns > 0)).any():
            return
        origin = self._origin(graph).name
        by = "" if self.recorded else ", taken for the recorded one; else give --recorded-device"
        if origin == self.name:
            yield f"the job runs on {origin} already{by}: its work takes as long as recorded"
        else:
            yield f"work of threads, carried from {origin}{by} by memory and arithmetic rates alone"

    def _kernels(self, graph: Graph, origin: Processor, destination: Processor) -> Graph:
        _require_gpu(origin, destination)
        ops, rows = graph.ops, kernel_rows(graph)
        dur, basis = ops.dur_ns.copy(), ops.basis.copy()
        carried = ported_ns(Kernels.of(graph, rows), origin, destination, self.constants)
        dur[rows] = np.rint(carried)
        basis[rows] = np.where(np.isin(basis[rows], _FORETOLD), basis[rows], Basis.SCALED)
        facts = replace(graph.facts, carried_to=destination.name)
        return replace(graph, ops=replace(ops, dur_ns=dur, basis=basis), facts=facts)


def _by_class(graph: Graph, rows: Int64, forecast: Bool) -> Iterator[str]:
    """`forecast`: by work, whether both devices have one that stands in place of rates."""
    work, dur = graph.ops.work[rows], graph.ops.dur_ns[rows]
    family = np.array([*(each.work.family for each in graph.works), Family.OTHER])[work]
    known = np.array([*(each.work.is_known for each in graph.works), False])[work]
    by_forecast = np.append(forecast, False)[work]
    for each in np.unique(family):
        mine = family == each
        took = dur[mine].sum()
        part, told, sure = (
            took / dur.sum(),
            dur[mine & by_forecast].sum() / took,
            dur[mine & known].sum() / took,
        )
        by = "arithmetic" if Family(each) in PRODUCTS else "bytes"
        if told:
            by = f"forecasts of both devices for {told:.0%} of their time, else by {by}"
        spelled = Family(each).name.lower().replace("_", " ")
        yield (
            f"{spelled}, {part:.0%} of kernels: by {by}, known of {sure:.0%} of their time; "
            f"{_off(graph, rows[mine])}"
        )


def _off(graph: Graph, rows: Int64) -> str:
    """How far kernels of a class may be off."""
    basis, wide = graph.ops.basis, spreads_of(graph, graph.ops.basis)[rows].mean()
    forecast = (basis[rows] == Basis.FORECAST).all()
    return f"off by {wide:.0%} {'on devices left out' if forecast else 'between pairs of devices'}"


@dataclass(frozen=True)
class DeviceFactor:
    """Time on the new device as a multiple of the old: the middle, and the two ratios."""

    middle: float
    low: float
    high: float


def device_factor(origin: Processor, destination: Processor, dtype: DType) -> DeviceFactor:
    """How work recorded on one device scales to another, by their datasheets."""
    for device in (origin, destination):
        if not device.memory_bytes_per_s:
            raise StrategyError(
                f"device {device.name} has no memory rate, so recorded work cannot be scaled to "
                "or from it; give memory_rate in the cluster file, or take a preset"
            )
    memory = origin.memory_bytes_per_s / destination.memory_bytes_per_s
    arithmetic = peak(origin, dtype) / peak(destination, dtype)
    return DeviceFactor(sqrt(memory * arithmetic), min(memory, arithmetic), max(memory, arithmetic))


def _require_gpu(origin: Processor, destination: Processor) -> None:
    if origin.kind is not DeviceKind.GPU:
        raise StrategyError(
            f"the recorded device is {origin.name}, a processor, and the graph holds kernels of a "
            "GPU; name the GPU that it was recorded on, such as a100-80. A run that was imagined "
            f"for {origin.name} is imagined anew: paceline imagine --device {destination.name}"
        )
