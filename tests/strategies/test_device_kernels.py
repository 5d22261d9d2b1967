"""Work recorded on one device, carried to another by both datasheets."""

import pytest

from paceline.cluster.files import device
from paceline.cluster.quantities import ClusterError
from paceline.graph import Basis, DeviceKind, DType, Graph, GraphBuilder, LaneKind
from paceline.strategies import strategy


def recorded_kernels() -> Graph:
    """One GPU's host work, a kernel of arithmetic alone, and one whose work is not known."""
    b = GraphBuilder()
    card, host = b.device("gpu", kind=DeviceKind.GPU), b.device("host")
    stream = b.lane(0, "stream", kind=LaneKind.STREAM, device=card)
    b.op("launch", b.lane(0, "thread", device=host), 500)
    b.op("gemm", stream, 1000, flops=10**15, size_bytes=1, dtype=DType.FLOAT16)
    b.op("unknown", stream, 1000)
    return b.build()


def carried(name: str) -> Graph:
    return strategy("device", name=name, recorded="a100-80").transform(recorded_kernels())


def test_kernels_recorded_on_another_gpu_are_scaled_by_habitats_rule() -> None:
    a100, h100 = device("a100-80"), device("h100")
    found = carried("h100").ops
    clock, units = a100.clock_hz / h100.clock_hz, a100.units / h100.units
    memory = a100.memory_bytes_per_s / h100.memory_bytes_per_s
    assert found.dur_ns.tolist() == [500, round(1000 * clock * units), round(1000 * memory)]
    assert [Basis(b) for b in found.basis] == [Basis.RECORDED, Basis.SCALED, Basis.SCALED]


def test_kernels_recorded_on_the_same_gpu_keep_their_time() -> None:
    found = carried("a100-80").ops
    assert found.dur_ns.tolist() == [500, 1000, 1000]
    assert (found.basis == Basis.RECORDED).all()


def test_a_gpu_without_a_clock_cannot_be_scaled_to() -> None:
    with pytest.raises(ClusterError, match="has no clock"):
        carried("b200")
