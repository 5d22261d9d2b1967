"""On which device a recording was made: by its own word, by a name that is given, or built."""

from collections.abc import Iterator

import numpy as np

from paceline.cluster import Device
from paceline.cluster.files import device as preset
from paceline.cluster.recognised import recognised
from paceline.cost.errors import CostError
from paceline.cost.ported.roof import PRODUCTS
from paceline.graph import DeviceKind, DType, Graph, LaneKind, OpKind
from paceline.graph.facts import RecordedGpu
from paceline.graph.graph import Int64

_BEST = 0.98
"""Of rates that kernels reached, this quantile counts as the device's: a few outliers aside."""
_LONG_NS = 20_000
"""Kernels that take less do not show the device's rates, unless there are no others."""
_REACHED = "built from the recording: the rates are the best that its kernels reached"


def recorded_device(graph: Graph, name: str = "") -> Device:
    """The named preset, or that of the GPU which the recording names, or one built from it."""
    if name:
        return preset(name)
    if not (graph.lanes.kind == LaneKind.STREAM).any():
        return _built(graph, RecordedGpu("processor"), DeviceKind.CPU)
    if not graph.facts.gpus:
        raise CostError(
            "the recording does not say on which GPU it was made; name it with --recorded-device, "
            "such as a100-80"
        )
    gpu = graph.facts.gpus[0]
    return recognised(gpu) or _built(graph, gpu)


def kernel_rows(graph: Graph) -> Int64:
    """Ops that ran on a device's streams: kernels, and fills of memory that are part of an
    operator. Copies by themselves, which may cross the host's bus, are none."""
    ops = graph.ops
    streams = graph.lanes.kind[ops.lane] == LaneKind.STREAM
    part = np.array([*(bool(each.operator) for each in graph.works), False])[ops.work]
    work = (ops.kind == OpKind.COMPUTE) | ((ops.kind == OpKind.COPY) & part)
    return np.flatnonzero(streams & work & (ops.dur_ns > 0))


def working_rows(graph: Graph) -> Int64:
    """Kernels of a device's streams; of a job without any, the operators that processors ran."""
    if (graph.lanes.kind == LaneKind.STREAM).any():
        return kernel_rows(graph)
    ops = graph.ops
    threads = graph.lanes.kind[ops.lane] == LaneKind.THREAD
    return np.flatnonzero(threads & (ops.kind == OpKind.COMPUTE) & (ops.dur_ns > 0))


def _built(graph: Graph, gpu: RecordedGpu, kind: DeviceKind = DeviceKind.GPU) -> Device:
    """No preset names it: what its own kernels reached stands for its rates, from below."""
    every = working_rows(graph)
    rows, source = every[graph.ops.dur_ns[every] >= _LONG_NS], _REACHED
    flops, memory = _reached(graph, rows)
    if kind is DeviceKind.GPU and not (flops and memory):
        source = f"{_REACHED}, all of them in less than {_LONG_NS // 1000} us: it may do more"
        flops, memory = _reached(graph, every)
    if not flops or not memory:
        raise CostError(
            f"no preset is a {gpu.name}, and none of the recording's kernels shows its rates; "
            "name a like device with --recorded-device, or record with shapes "
            "(torch.profiler.profile(record_shapes=True))"
        )
    return Device(
        name=gpu.name,
        kind=kind,
        memory_bytes=gpu.memory_bytes,
        memory_bytes_per_s=memory,
        units=gpu.units,
        flops_per_s=flops,
        source=source,
        reached=True,
    )


def _reached(graph: Graph, rows: Int64) -> tuple[dict[DType, float], float]:
    """Rates of products by type, and of the memory; nothing where no kernel shows them."""
    return dict(_rates(graph, rows)), _best(graph.ops.size_bytes[rows], graph.ops.dur_ns[rows])


def _rates(graph: Graph, rows: Int64) -> Iterator[tuple[DType, float]]:
    """The best rate of products, by element type."""
    families = [each.work.family in PRODUCTS for each in graph.works]
    work = graph.ops.work[rows]
    product = rows[np.array([*families, False])[work]]
    for dtype in np.unique(graph.ops.dtype[product]):
        mine = product[graph.ops.dtype[product] == dtype]
        if rate := _best(graph.ops.flops[mine], graph.ops.dur_ns[mine]):
            yield DType(dtype), rate


def _best(amount: Int64, dur_ns: Int64) -> float:
    """Per second; 0 where nothing is known."""
    known = amount > 0
    if not known.any():
        return 0.0
    return float(np.quantile(amount[known] / dur_ns[known], _BEST)) * 1e9
