"""Recorded work on another device, by both datasheets.

Kernels of a GPU are carried over by wave scaling (Habitat, Yu et al., ATC 2021). For work on CPU
threads, of which neither flops nor bytes are known, the geometric mean of the ratios of memory and
arithmetic rates is taken. Wrong by as much as the two ratios differ, and where libraries are tuned
for one device and not for the other.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

import numpy as np

from paceline.cluster import Device as Processor
from paceline.cluster.files import device as preset
from paceline.cost.compute import peak, wave_scaled_ns
from paceline.graph import Basis, DeviceKind, DType, Graph, LaneKind, OpKind
from paceline.graph.graph import Int64
from paceline.graph.scaled import scaled, works
from paceline.strategies.strategy import Strategy, StrategyError


@dataclass(frozen=True)
class Device(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"device"})
    how: ClassVar[str] = "Start the job on that device."

    name: str  # a preset, such as h200
    recorded: str  # the one that the job was recorded on

    def transform(self, graph: Graph) -> Graph:
        origin, destination = preset(self.recorded), preset(self.name)
        if origin == destination:
            return graph
        graph = replace(graph, facts=replace(graph.facts, pulse=None))
        if (graph.lanes.kind == LaneKind.STREAM).any():
            return _kernels(graph, origin, destination)
        factor = device_factor(origin, destination, DType.FLOAT32).middle
        return scaled(graph, works(graph), factor, Basis.SCALED)


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


def _kernels(graph: Graph, origin: Processor, destination: Processor) -> Graph:
    if origin.kind is not DeviceKind.GPU:
        raise StrategyError(
            f"the recording has kernels of a GPU, but the recorded device is {origin.name}, "
            "a processor; name the GPU that it was recorded on, such as a100-80"
        )
    ops = graph.ops
    streams = graph.lanes.kind[ops.lane] == LaneKind.STREAM
    rows = np.flatnonzero(streams & (ops.kind == OpKind.COMPUTE) & (ops.dur_ns > 0))
    dur, basis = ops.dur_ns.copy(), ops.basis.copy()
    for dtype in np.unique(ops.dtype[rows]):
        mine: Int64 = rows[ops.dtype[rows] == dtype]
        made = wave_scaled_ns(
            ops.dur_ns[mine],
            ops.flops[mine],
            ops.size_bytes[mine],
            DType(dtype),
            origin,
            destination,
        )
        dur[mine] = np.rint(made)
    basis[rows] = Basis.SCALED
    return replace(graph, ops=replace(ops, dur_ns=dur, basis=basis))
