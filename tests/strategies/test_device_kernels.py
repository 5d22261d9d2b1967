"""Work recorded on one device, carried to another: by rates that both achieve."""

from dataclasses import replace

import pytest

from paceline.cluster.files import device
from paceline.cluster.recognised import kept
from paceline.cost.achieved import achieved
from paceline.graph import (
    UNPRICED,
    Basis,
    DeviceKind,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
)
from paceline.graph.work import Family, Launch, Matrix, Recorded, matrix, unknown
from paceline.strategies import StrategyError, strategy

MILLISECOND = 10**6


def recorded_kernels() -> Graph:
    """One GPU's host work, a kernel of arithmetic alone, and one whose work is not known."""
    b = GraphBuilder()
    card, host = b.device("gpu", kind=DeviceKind.GPU), b.device("host")
    stream = b.lane(0, "stream", kind=LaneKind.STREAM, device=card)
    b.op("launch", b.lane(0, "thread", device=host), 500)
    b.op("gemm", stream, MILLISECOND, flops=10**15, size_bytes=1, dtype=DType.FLOAT16)
    b.op("unknown", stream, MILLISECOND)
    work = matrix(Matrix(1, 8192, 8192, 8192), DType.FLOAT16)
    b.op("recorded", stream, MILLISECOND, flops=work.flops, size_bytes=work.size_bytes,
         dtype=DType.FLOAT16, work=Recorded("aten::mm", work, Launch(10**6, 256)))  # fmt: skip
    return b.build()


def carried(name: str) -> Graph:
    return strategy("device", name=name, recorded="a100-80").transform(recorded_kernels())


def test_kernels_recorded_on_another_gpu_keep_their_share_of_what_it_achieves() -> None:
    here, there = achieved(device("a100-80")), achieved(device("h100"))
    ops = carried("h100").ops
    arithmetic = here.flops_per_s[DType.FLOAT16] / there.flops_per_s[DType.FLOAT16]
    memory = here.memory_bytes_per_s / there.memory_bytes_per_s
    least, body = there.least_ns, MILLISECOND - here.least_ns
    meant = [least + body * factor for factor in (arithmetic, memory, arithmetic)]
    assert ops.dur_ns.tolist() == [500, *(pytest.approx(ns, abs=1) for ns in meant)]
    assert [Basis(b) for b in ops.basis] == [Basis.RECORDED, *[Basis.SCALED] * 3]


def test_kernels_recorded_on_the_same_gpu_keep_their_time() -> None:
    graph, found = recorded_kernels(), carried("a100-80").ops
    assert found.dur_ns.tolist() == graph.ops.dur_ns.tolist()
    assert (found.basis == Basis.RECORDED).all()


def test_what_kernels_rest_on_is_told_by_class() -> None:
    change = strategy("device", name="b200", recorded="a100-80")
    told = list(change.rests_on(change.transform(recorded_kernels())))
    assert any(line.startswith("rates achieved on b200: tables of aiconfigurator") for line in told)
    assert any(line.startswith("matrix, ") and "known of 100%" in line for line in told)
    assert any(line.startswith("other, ") and "known of 0%" in line for line in told)


def test_a_recording_without_shapes_says_how_to_record_them() -> None:
    b = GraphBuilder()
    stream = b.lane(0, "stream", kind=LaneKind.STREAM, device=b.device("gpu", kind=DeviceKind.GPU))
    told = Recorded("", unknown(Family.MATRIX, DType.FLOAT16), Launch(100, 128), inferred=True)
    b.op("gemm", stream, MILLISECOND, work=told)
    change = strategy("device", name="h100", recorded="a100-80")
    assert any("record_shapes=True" in line for line in change.rests_on(b.build()))
    assert not any("record_shapes" in line for line in change.rests_on(recorded_kernels()))


def test_a_recording_of_a_gpu_is_not_carried_from_a_processor() -> None:
    with pytest.raises(StrategyError, match="name the GPU"):
        strategy("device", name="h100", recorded="epyc-2c").transform(recorded_kernels())


def foretold(dur_ns: int, device_name: str) -> Graph:
    """A kernel that nobody saw, of a run that was imagined for a device."""
    b = GraphBuilder(facts=Facts(world_size=1, gpus=(kept(device(device_name)),)))
    work = matrix(Matrix(1, 8192, 8192, 8192), DType.FLOAT16)
    b.op("mm", b.lane(0, "work", kind=LaneKind.STREAM), dur_ns, flops=work.flops,
         size_bytes=work.size_bytes, dtype=DType.FLOAT16, work=Recorded("aten::mm", work),
         basis=Basis.FORECAST)  # fmt: skip
    return b.build()


def test_an_imagined_kernel_is_as_uncertain_on_another_device_as_on_its_own() -> None:
    ops = strategy("device", name="h200").transform(foretold(MILLISECOND, "h100")).ops
    assert [Basis(b) for b in ops.basis] == [Basis.FORECAST]


def test_a_run_that_was_imagined_for_no_device_is_left_to_whoever_prices_it() -> None:
    graph = foretold(UNPRICED, "h100")
    graph = replace(graph, facts=Facts(world_size=1))
    assert strategy("device", name="h200").transform(graph) is graph


def test_a_run_that_was_imagined_for_a_processor_is_imagined_anew() -> None:
    with pytest.raises(StrategyError, match="paceline imagine --device h200"):
        strategy("device", name="h200").transform(foretold(MILLISECOND, "epyc-2c"))
