"""Shapes that cannot be true are not believed: the grid has no room for them, or the device no
time. Kernels that a graph launched have no operator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.graph import DType, Graph, LaneKind, RecordedGpu
from paceline.graph.work import (
    Attention,
    Convolution,
    Elements,
    Family,
    Matrix,
    Recorded,
    attention,
    convolution,
    matrix,
    pointwise,
)
from paceline.trace.importing import Import, import_graph
from paceline.trace.shapes.limits import fastest, limits_of

Make = Callable[..., Any]
BF16 = "c10::BFloat16"
H100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}]}
OTHER = {"deviceProperties": [{"id": 0, "name": "Frobnicator 9", "numSms": 132}]}
FULL = {"grid": [128, 2, 1], "block": [384, 1, 1]}


def product(d: Any, sizes: tuple[int, int, int], dur_us: float = 100.0, **launch: Any) -> Any:
    """A product in bfloat16 of m x k times k x n; another one, of 64 x 64 x 64, follows."""
    m, n, k = sizes
    for at, dims, took in ((0, [[m, k], [k, n]], dur_us), (1000, [[64, 64], [64, 64]], 5.0)):
        form = {"Input Dims": dims, "Input type": [BF16, BF16]}
        d.op("aten::mm", at, 20, **form).call("cudaLaunchKernel", at + 5, 5, correlation=at + 1)
        d.kernel("nvjet_tst_128x256_64x4", at + 20, took, at + 1, **launch)
    return d


def graph_of(d: Any, folder: Path) -> Graph:
    return import_graph([d.step(1, 0, 2000).save(folder / "rank0.json")], Import())


def kernels(graph: Graph) -> list[Recorded]:
    streams = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    found = [graph[int(row)].work for row in np.flatnonzero(streams & (graph.ops.work >= 0))]
    return [each for each in found if each is not None]


def notes(graph: Graph) -> str:
    return "\n".join(graph.meta["notes"])


def test_a_product_that_the_device_has_no_time_for_is_not_believed(
    document: Make, tmp_path: Path
) -> None:
    d = product(document(header=H100), (8192, 8192, 8192), **FULL)  # 11 PFLOP/s
    large, small = kernels(graph := graph_of(d, tmp_path))
    assert (large.work.family, large.work.is_known) == (Family.MATRIX, False)
    assert small.work.dims == Matrix(1, 64, 64, 64)
    assert "1 of 2 kernels (95.2 % of their time) did, by their shapes, more than h100" in notes(
        graph
    )


def test_a_product_at_the_peak_of_its_type_is_believed(document: Make, tmp_path: Path) -> None:
    d = product(document(header=H100), (8192, 8192, 8192), dur_us=1100, **FULL)  # 1 PFLOP/s
    graph = graph_of(d, tmp_path)
    assert kernels(graph)[0].work.dims == Matrix(1, 8192, 8192, 8192)
    assert "not believed" not in notes(graph)


def test_a_gpu_that_no_preset_names_computes_no_faster_than_the_fastest_known(
    document: Make, tmp_path: Path
) -> None:
    d = product(document(header=OTHER), (8192, 8192, 8192), **FULL)
    assert not kernels(graph_of(d, tmp_path))[0].work.is_known
    slower = product(document(header=OTHER), (8192, 8192, 8192), dur_us=800, **FULL)
    assert kernels(graph_of(slower, tmp_path))[0].work.is_known


def test_a_product_has_no_more_results_than_its_blocks_work_out(
    document: Make, tmp_path: Path
) -> None:
    few = {"grid": [4, 1, 1], "block": [128, 1, 1]}
    graph = graph_of(product(document(), (4096, 4096, 16), **few), tmp_path)
    assert [each.work.is_known for each in kernels(graph)] == [False, True]
    assert "than their grid has blocks for" in notes(graph)
    enough = graph_of(product(document(), (512, 512, 16), **few), tmp_path)
    assert [each.work.is_known for each in kernels(enough)] == [True, True]


def test_a_grid_that_stays_on_the_device_takes_one_tile_after_the_other(
    document: Make, tmp_path: Path
) -> None:
    stays = {"grid": [132, 1, 1], "block": [384, 1, 1]}
    d = product(document(header=H100), (8192, 16384, 64), dur_us=500, **stays)
    assert kernels(graph_of(d, tmp_path))[0].work.is_known


def test_blocks_of_a_call_are_counted_together(document: Make, tmp_path: Path) -> None:
    d, few = document(), {"grid": [2, 1, 1], "block": [128, 1, 1]}
    form = {"Input Dims": [[512, 64], [64, 512]], "Input type": [BF16, BF16]}
    d.op("aten::mm", 0, 90, **form)
    for number in (1, 2):
        d.call("cudaLaunchKernel", 10 * number, 5, correlation=number)
        d.kernel("cutlass_gemm", 100 * number, 20, number, **few)
    assert all(each.work.is_known for each in kernels(graph_of(d, tmp_path)))


def test_bytes_that_no_memory_moves_in_that_time_are_not_believed(
    document: Make, tmp_path: Path
) -> None:
    for rows, believed in ((10**6, False), (10**4, True)):
        form = {"Input Dims": [[rows, 1024], []], "Input type": [BF16, "Scalar"]}
        d = document(header=H100).op("aten::softmax", 0, 20, **form)
        d.call("cudaLaunchKernel", 5, 5, correlation=1).kernel("softmax_warp", 20, 20, 1)
        assert kernels(graph_of(d, tmp_path))[0].work.is_known is believed


@given(st.sampled_from(["NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB", "Frobnicator 9"]),
       st.integers(1, 200))  # fmt: skip
def test_a_device_takes_no_less_time_for_more_work(name: str, size: int) -> None:
    limits = limits_of([RecordedGpu(name, units=80 if "V100" in name else 132)])
    for dtype in (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT64, DType.FLOAT8):
        less, more = (
            limits.least_ns(matrix(Matrix(1, n, n, n), dtype)) for n in (64 * size, 128 * size)
        )
        assert 0 < less < more


def test_float32_may_be_rounded_and_convolutions_may_take_fewer_multiplications() -> None:
    limits = limits_of([RecordedGpu("NVIDIA H100 80GB HBM3", units=132)])
    assert limits.device is not None
    rates = limits.device.flops_per_s
    assert fastest(rates, DType.FLOAT32) == rates[DType.BFLOAT16] / 2
    assert fastest(rates, DType.FLOAT64) == 2 * rates[DType.FLOAT64]
    dims = Convolution(64, 512, 512, 4096, 4096, 9, 1)
    one = Convolution(64, 512, 512 * 9, 4096, 4096, 1, 1)
    three, single = (limits.least_ns(convolution(each, DType.FLOAT16)) for each in (dims, one))
    assert three == pytest.approx(single / 4)


def test_attention_counts_by_arithmetic_and_other_work_by_bytes() -> None:
    limits = limits_of([RecordedGpu("NVIDIA H100 80GB HBM3", units=132)])
    seen = attention(Attention(512, 16, 16, 1, 4096, 64, 64), DType.BFLOAT16)
    assert limits.least_ns(seen) == pytest.approx(seen.flops / (1.5 * 989.4e12) * 1e9)
    added = pointwise(Elements(10**9, 2), DType.BFLOAT16)
    assert limits.least_ns(added) == pytest.approx((6e9 - 50 * 2**20) / (2 * 3.35e12) * 1e9)


def test_of_no_known_device_nothing_is_too_fast() -> None:
    assert limits_of([]).least_ns(matrix(Matrix(1, 10**5, 10**5, 10**5), DType.FLOAT16)) == 0


@pytest.mark.parametrize("call", ["cudaGraphLaunch", "cudaGraphLaunch_v10000", "hipGraphLaunch"])
def test_kernels_of_a_graph_do_not_work_for_the_operator_that_launched_it(
    document: Make, tmp_path: Path, call: str
) -> None:
    form = {"Input Dims": [[1000, 64], [50]], "Input type": ["float", "long int"]}
    d = document().op("aten::embedding", 0, 200, **form).call(call, 5, 100, correlation=1)
    add = "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    d.kernel("sm90_xmma_gemm_bf16", 50, 20, 1, **FULL).kernel(add, 80, 20, 1, **FULL)
    graph = graph_of(d, tmp_path)
    made = kernels(graph)
    assert [each.work.family for each in made] == [Family.MATRIX, Family.POINTWISE]
    assert all(each.inferred and not each.operator for each in made)
    assert "2 of 2 kernels (100.0 % of their time) were launched by a graph" in notes(graph)
