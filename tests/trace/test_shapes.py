"""What recorded shapes, names and grids tell of a kernel's work."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.graph import Collective, DType, Graph, LaneKind
from paceline.graph.work import (
    Attention,
    Convolution,
    Elements,
    Family,
    Grouped,
    Launch,
    Matrix,
    Recorded,
    Rows,
    Way,
)
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources
from paceline.trace.shapes import names, triton
from paceline.trace.shapes.families import RULES
from paceline.trace.shapes.inputs import Inputs, ShapeError, inputs_of
from paceline.trace.shapes.launches import launch_of
from paceline.trace.trace import Trace

BF16 = "c10::BFloat16"


def inputs(dims: list[Any], types: list[Any], **more: list[Any]) -> Inputs:
    named = {"strides": "Input Strides", "values": "Concrete Inputs"}
    form = {"Input Dims": dims, "Input type": types}
    form |= {named[key]: value for key, value in more.items()}
    found = inputs_of(json.dumps(form).encode())
    assert found is not None
    return found


def tensors(*dims: list[int], kind: str = BF16) -> Inputs:
    return inputs(list(dims), [kind] * len(dims))


@pytest.mark.parametrize(
    ("name", "dims", "meant"),
    [
        ("aten::mm", [[3, 5], [5, 7]], Matrix(1, 3, 7, 5)),
        ("aten::addmm", [[7], [3, 5], [5, 7]], Matrix(1, 3, 7, 5)),
        ("aten::bmm", [[2, 3, 5], [2, 5, 7]], Matrix(2, 3, 7, 5)),
        ("aten::baddbmm", [[2, 3, 7], [2, 3, 5], [2, 5, 7]], Matrix(2, 3, 7, 5)),
        ("aten::addbmm", [[3, 7], [2, 3, 5], [2, 5, 7]], Matrix(1, 3, 7, 10)),
        ("aten::mv", [[3, 5], [5]], Matrix(1, 3, 1, 5)),
        ("aten::linear", [[4, 3, 5], [7, 5], [7]], Matrix(1, 12, 7, 5)),
        ("aten::_grouped_mm", [[12, 5], [4, 5, 7]], Grouped(4, 12, 7, 5)),
    ],
)
def test_products_are_told_by_their_operands(name: str, dims: list[Any], meant: Any) -> None:
    work = RULES[name](tensors(*dims))
    assert work.dims == meant


def test_products_of_eight_bits_write_sixteen_and_of_four_bits_hold_two_in_a_byte() -> None:
    eight = inputs([[16, 32], [32, 8]], ["c10::Float8_e4m3fn"] * 2)
    work = RULES["aten::_scaled_mm"](eight)
    assert (work.dtype, work.written_bytes) == (DType.FLOAT8, 2 * 16 * 8)
    four = inputs([[16, 32], [32, 8]], ["c10::Float4_e2m1fn_x2"] * 2)
    assert RULES["aten::_scaled_mm"](four).dims == Matrix(1, 16, 8, 64)


def test_operands_that_do_not_fit_tell_nothing() -> None:
    with pytest.raises(ShapeError):
        RULES["aten::mm"](tensors([3, 5], [6, 7]))


def test_a_convolution_has_the_padding_stride_and_groups_that_its_values_tell() -> None:
    dims = [[8, 32, 56, 56], [64, 16, 3, 3], [64], [], [], [], [], [], []]
    kinds = ["float"] * 3 + ["ScalarList"] * 3 + ["Scalar", "ScalarList", "Scalar"]
    values = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"]
    work = RULES["aten::convolution"](inputs(dims, kinds, values=values))
    assert work.dims == Convolution(8, 32, 64, 56 * 56, 28 * 28, 9, 4, 2)


def test_backward_of_a_convolution_counts_the_gradients_that_are_wanted() -> None:
    dims = [[8, 64, 28, 28], [8, 32, 56, 56], [64, 32, 3, 3]] + [[]] * 8
    values = ["", "", "", "[64]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    flops = {}
    for wanted, way in (
        ("[True, True, True]", Way.BACKWARD),
        ("[True, False, False]", Way.BACKWARD_DATA),
        ("[False, True, False]", Way.BACKWARD_WEIGHT),
    ):
        told = inputs(dims, ["float"] * 3 + ["Scalar"] * 8, values=[*values, wanted])
        work = RULES["aten::convolution_backward"](told)
        assert work.way is way
        flops[way] = work.flops
    assert flops[Way.BACKWARD] == flops[Way.BACKWARD_DATA] + flops[Way.BACKWARD_WEIGHT]


def test_attention_knows_its_layout_its_mask_and_shared_keys() -> None:
    heads_first = inputs(
        [[2, 8, 128, 64], [2, 2, 128, 64], [2, 2, 128, 64], [], [], []],
        [BF16] * 3 + ["", "Scalar", "Scalar"],
        values=["", "", "", "", "0.", "True"],
    )
    work = RULES["aten::scaled_dot_product_attention"](heads_first)
    assert work.dims == Attention(2, 8, 2, 128, 128, 64, 64, causal=True)
    flash = tensors([2, 128, 8, 64], [2, 128, 2, 64], [2, 128, 2, 64])
    assert RULES["flash_attn::_flash_attn_forward"](flash).dims == Attention(
        2, 8, 2, 128, 128, 64, 64
    )


def test_packed_sequences_count_as_many_of_the_longest_as_fill_the_rows() -> None:
    packed = inputs(
        [[256, 8, 64]] * 3 + [[3], [3], [], [], [], []],
        [BF16] * 3 + ["int", "int", "Scalar", "Scalar", "Scalar", "Scalar"],
        values=["", "", "", "", "", "128", "128", "0.", "False"],
    )
    assert RULES["aten::_flash_attention_forward"](packed).dims == Attention(
        2, 8, 8, 128, 128, 64, 64
    )


def attended(
    name: str, sizes: list[list[int]], first: int = 0, told: dict[int, Any] | None = None
) -> Any:
    """The dimensions of a call whose queries, keys and values begin at `first`. Of what else is
    told, lists are shapes of tensors, all others values."""
    count = max([first + 2, *(told or {})]) + 1
    dims, kinds, values = [[]] * count, [""] * count, [""] * count
    for place, size in enumerate(sizes, first):
        dims[place], kinds[place] = size, BF16
    for place, value in (told or {}).items():
        if isinstance(value, list):
            dims[place], kinds[place] = value, "int"
        else:
            values[place] = str(value)
    return RULES[name](inputs(dims, kinds, values=values))


PACKED = [[256, 8, 64], [256, 2, 64], [256, 2, 64]]
ONE_BATCH = [[1, *size] for size in PACKED]
MEANT = Attention(2, 8, 2, 128, 128, 64, 64, causal=True)


@pytest.mark.parametrize(
    ("name", "sizes", "first", "told"),
    [
        ("FlashAttnVarlenFunc", PACKED, 0, {3: [3], 4: [3], 5: 128, 6: 128, 9: True}),
        ("flash_attn_3::fwd", PACKED, 0, {7: [3], 8: [3], 12: 128, 13: 128, 24: True}),
        ("flash_attn_3::_flash_attn_forward", PACKED, 0, {7: [3], 12: 128, 13: 128, 24: True}),
        ("flash_attn_3::bwd", PACKED, 1, {9: [3], 10: [3], 13: 128, 14: 128, 16: True}),
        ("flash_attn_3::_flash_attn_backward", PACKED, 1, {6: [3], 10: 128, 11: 128, 16: True}),
        ("xformers_flash::flash_fwd", PACKED, 0, {3: [3], 4: [3], 6: 128, 7: 128, 10: True}),
        ("xformers_flash::flash_bwd", PACKED, 2, {7: [3], 8: [3], 9: 128, 10: 128, 13: True}),
        ("xformers::efficient_attention_forward_cutlass", ONE_BATCH, 0,
         {4: [3], 5: [3], 6: 128, 7: 128, 9: 1}),
        ("xformers::efficient_attention_backward_cutlass", ONE_BATCH, 1,
         {6: [3], 7: [3], 8: 128, 9: 128, 14: 1}),
        ("xformers::efficient_attention_forward_ck", ONE_BATCH, 0,
         {4: [3], 5: [3], 6: 128, 9: 2}),
        ("xformers::efficient_attention_backward_ck", ONE_BATCH, 1,
         {5: [3], 6: [3], 7: 128, 8: 128, 15: 2}),
        ("aten::_efficient_attention_forward", ONE_BATCH, 0,
         {4: [3], 5: [3], 6: 128, 7: 128, 9: 1}),
    ],
)  # fmt: skip
def test_attention_of_packed_sequences_by_each_library(
    name: str, sizes: list[list[int]], first: int, told: dict[int, Any]
) -> None:
    work = attended(name, sizes, first, told)
    assert work.dims == MEANT
    assert work.way is (Way.FORWARD if first == 0 else Way.BACKWARD)


def test_packed_sequences_of_untold_length_are_taken_to_be_alike() -> None:
    work = attended("FlashAttnVarlenFunc", PACKED, 0, {3: [5], 4: [5]})
    assert work.dims == Attention(4, 8, 2, 64, 64, 64, 64)


def test_keys_in_pages_tell_nothing() -> None:
    pages = [[4, 1, 8, 64], [100, 16, 2, 64], [100, 16, 2, 64]]
    assert attended("flash_attn_3::fwd", pages).dims.s_kv == 16
    with pytest.raises(ShapeError, match="pages"):
        attended("flash_attn_3::fwd", pages, 0, {14: [4, 25]})


@pytest.mark.parametrize(
    ("name", "dims", "meant"),
    [
        ("triton_tem_fused_mm_0", [[48, 64], [64, 96], [48, 96]], Matrix(1, 48, 96, 64)),
        ("triton_tem_fused_mm_12", [[2, 24, 64], [96, 64], [2, 24, 96]], Matrix(1, 48, 96, 64)),
        ("triton_tem_fused_addmm_relu_3", [[96], [48, 64], [64, 96], [48, 96]],
         Matrix(1, 48, 96, 64)),
        ("triton_tem_fused_bmm_1", [[8, 48, 64], [8, 64, 96], [8, 48, 96]], Matrix(8, 48, 96, 64)),
        ("triton_tem_fused__to_copy_add_mm_1", [[48, 64], [64, 96], [48, 96], [48, 96]],
         Matrix(1, 48, 96, 64)),
    ],
)  # fmt: skip
def test_a_template_of_a_product_is_told_by_its_tensors(
    name: str, dims: list[Any], meant: Matrix
) -> None:
    work = triton.work_of(name, tensors(*dims))
    assert work is not None
    assert (work.family, work.dims, work.flops) == (
        Family.MATRIX, meant, 2 * meant.b * meant.m * meant.n * meant.k
    )  # fmt: skip


def test_templates_of_other_operators_have_a_family_and_no_arithmetic() -> None:
    dims = [[2, 8, 128, 64]] * 4
    for name, family in (
        ("triton_tem_fused_flex_attention_0", Family.ATTENTION),
        ("triton_tem_fused_convolution_3", Family.CONVOLUTION),
    ):
        assert triton.family_of(name) is names.family_of(name) is family
        assert triton.work_of(name, tensors(*dims)) is None
    assert triton.work_of("triton_tem_fused_mm_0", tensors([48, 64], [65, 96], [48, 96])) is None


def test_an_expanded_dimension_is_read_once() -> None:
    wide = inputs([[64, 100], [64, 100]], ["float"] * 2, strides=[[100, 1], [0, 1]])
    work = RULES["aten::add"](wide)
    assert work.dims == Elements(6400, 2)
    assert work.read_bytes == 4 * (6400 + 100)


def test_a_comparison_writes_one_byte_per_element() -> None:
    assert RULES["aten::eq"](tensors([10, 10], [10, 10])).written_bytes == 100


def test_a_sum_over_some_dimensions_has_one_row_for_each_result() -> None:
    told = inputs([[4, 5, 6], []], ["float", "ScalarList"], values=["", "[0, 2]"])
    assert RULES["aten::sum"](told).dims == Rows(5, 24)
    assert RULES["aten::sum"](tensors([4, 5, 6])).dims == Rows(1, 120)


def test_lists_without_types_are_joined_and_fused_optimizers_read_all_of_them() -> None:
    joined = inputs([[[2, 3], [4, 3]], []], ["TensorList", "Scalar"])
    assert RULES["aten::cat"](joined).dims == Elements(18)
    lists = [[[10, 10], [5]]] * 4 + [[[1], [1]]]
    fused = RULES["aten::_fused_adamw_"](inputs(lists, ["TensorList"] * 5))
    assert fused.dims == Elements(105, 4)
    with pytest.raises(ShapeError):
        RULES["aten::_fused_adamw_"](inputs([[]], ["TensorList"]))


@given(st.binary(max_size=60))
def test_a_form_that_is_no_json_tells_nothing(form: bytes) -> None:
    assert inputs_of(form) is None or isinstance(inputs_of(form), Inputs)
    assert launch_of(form).blocks >= 0


anything: Any = st.recursive(
    st.none() | st.integers(-5, 2**60) | st.text(max_size=4) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=12,
)


@given(
    st.sampled_from(sorted(RULES)), st.lists(anything, max_size=5), st.lists(anything, max_size=5)
)
def test_whatever_inputs_are_told_no_rule_breaks(name: str, dims: Any, values: Any) -> None:
    form = {"Input Dims": dims, "Input type": ["float"] * len(dims), "Concrete Inputs": values}
    found = inputs_of(json.dumps(form).encode())
    if found is None:
        return
    try:
        work = RULES[name](found)
    except (ShapeError, IndexError, ValueError):
        return
    assert work.size_bytes >= 0


def test_hip_counts_some_grids_in_threads() -> None:
    form = b'{"grid":[71680,1,1],"block":[256,1,1]}'
    assert launch_of(form, "hipExtModuleLaunchKernel") == Launch(280, 256)
    assert launch_of(form, "hipLaunchKernel") == Launch(71680, 256)


ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >"
)


def test_an_elementwise_kernel_tells_its_elements_by_name_and_grid() -> None:
    work = names.work_of(ADD, Launch(blocks=141, threads=128))
    assert work is not None
    assert (work.dims, work.dtype) == (Elements(141 * 128 * 4, 2), DType.BFLOAT16)


@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        ("Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT16x16x128", Family.MATRIX),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", Family.MATRIX),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32", Family.CONVOLUTION),
        ("attn_fwd", Family.ATTENTION),
        ("ncclDevKernel_Generic_4", Family.COLLECTIVE),
        ("gemm_kernel_of_nobody", Family.MATRIX),
        ("frobnicate", Family.OTHER),
    ],
)
def test_a_family_is_told_by_a_librarys_spelling(kernel: str, family: Family) -> None:
    assert names.family_of(kernel) is family


# Whole traces


def operator(number: int, name: str, at: int, form: dict[str, Any] | None = None) -> dict[str, Any]:
    args = {"External id": number, **(form or {})}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 50,
            "args": args}  # fmt: skip


def launched(number: int, name: str, at: int, **more: Any) -> list[dict[str, Any]]:
    """A driver call 10 us after `at`, and its kernel of 20 us."""
    call, cat = more.pop("call", "cudaLaunchKernel"), more.pop("cat", "cuda_runtime")
    args = {"correlation": number, "device": 0, "stream": 7, **more}
    return [
        {"ph": "X", "cat": cat, "name": call, "pid": 1, "tid": 1, "ts": at + 10, "dur": 5,
         "args": {"correlation": number}},
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at + 20, "dur": 20,
         "args": args},
    ]  # fmt: skip


def trace_of(folder: Path, events: list[dict[str, Any]], **header: Any) -> Trace:
    file = folder / "rank-0.json"
    file.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": events}))
    return read_all(sources([file]))[0]


def kernels(graph: Graph) -> list[Recorded | None]:
    streams = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    rows = np.flatnonzero(streams & (graph.ops.work >= 0))
    return [graph[int(row)].work for row in rows]


MM = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]}
GRID = {"grid": [4, 1, 1], "block": [128, 1, 1]}


def test_a_kernel_works_for_the_innermost_operator_around_its_launch(tmp_path: Path) -> None:
    outer = operator(1, "aten::matmul", 0, MM)
    outer["dur"] = 100
    events = [outer, operator(2, "aten::mm", 5, MM), *launched(9, "volta_sgemm", 5, **GRID)]
    graph = build([trace_of(tmp_path, events)])
    (made,) = kernels(graph)
    assert made is not None
    assert (made.operator, made.work.dims, made.inferred) == (
        "aten::mm",
        Matrix(1, 64, 16, 32),
        False,
    )
    assert made.launch == Launch(4, 128)
    row = int(np.flatnonzero(graph.ops.work >= 0)[0])
    assert graph.ops.flops[row] == 2 * 64 * 16 * 32


def test_kernels_of_one_call_share_its_work(tmp_path: Path) -> None:
    events = [operator(2, "aten::mm", 0, MM)]
    events += launched(8, "gemm", 0, **GRID) + launched(9, "splitKreduce", 21, **GRID)
    graph = build([trace_of(tmp_path, events)])
    assert graph.ops.flops.sum() == 2 * 64 * 16 * 32


def test_a_kernel_without_a_launch_did_what_its_likes_did(tmp_path: Path) -> None:
    events = [operator(2, "aten::mm", 100, MM), *launched(9, "volta_sgemm", 100, **GRID)]
    stray = launched(77, "volta_sgemm", 300, **GRID)[1]
    graph = build([trace_of(tmp_path, [*events, stray])])
    first, second = kernels(graph)
    assert first is not None
    assert second is not None
    assert (first.inferred, second.inferred) == (False, True)
    assert first.work == second.work


def test_shapes_without_room_in_the_grid_are_not_believed_and_that_is_said(tmp_path: Path) -> None:
    huge = {"Input Dims": [[10**6], [10**6]], "Input type": [BF16, BF16]}
    events = [operator(2, "aten::add", 0, huge), *launched(9, ADD, 0, **GRID)]
    graph = build([trace_of(tmp_path, events)])
    (made,) = kernels(graph)
    assert made is not None
    assert made.inferred
    assert made.work.dims == Elements(4 * 128 * 4, 2)
    assert any("no room in their grid" in note for note in graph.meta["notes"])


def test_a_trace_without_shapes_says_how_to_record_them(tmp_path: Path) -> None:
    events = [operator(2, "aten::mm", 0), *launched(9, "volta_sgemm", 0, **GRID)]
    graph = build([trace_of(tmp_path, events)])
    assert any("record_shapes=True" in note for note in graph.meta["notes"])
    (made,) = kernels(graph)
    assert made is not None
    assert (made.work.family, made.work.is_known) == (Family.MATRIX, False)


def test_kernels_of_a_cuda_graph_are_known_by_name(tmp_path: Path) -> None:
    events = launched(9, ADD, 0, call="cudaGraphLaunch", **GRID)
    (made,) = kernels(build([trace_of(tmp_path, [operator(1, "aten::to", 0), *events])]))
    assert made is not None
    assert (made.work.family, made.inferred) == (Family.POINTWISE, True)


def test_a_generated_kernel_stands_for_the_operators_in_its_name(tmp_path: Path) -> None:
    form = {"Input Dims": [[64, 32], [64, 32], []], "Input type": [BF16, BF16, "Scalar"]}
    name = "triton_per_fused_native_layer_norm_add_0"
    events = [operator(2, name, 0, form), *launched(9, name, 0, call="cuLaunchKernel", **GRID)]
    (made,) = kernels(build([trace_of(tmp_path, events)]))
    assert made is not None
    assert (made.work.family, made.work.dims) == (Family.NORM, Rows(64, 32))
    assert made.work.size_bytes == 2 * 2 * 64 * 32


# Other vendors


def test_a_trace_of_an_amd_gpu_gives_work_and_rccls_collectives(tmp_path: Path) -> None:
    gpu = {"name": "AMD Instinct MI300X VF", "numSms": 304, "maxThreadsPerMultiprocessor": 2048}
    product = "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT16x16x128"
    threads = {"grid": [1024, 1, 1], "block": [256, 1, 1]}
    told = {"Collective name": "allreduce", "In msg nelems": 100, "dtype": "BFloat16"}
    events = [
        operator(2, "aten::mm", 0, MM),
        *launched(8, product, 0, call="hipExtModuleLaunchKernel", cat="hip_runtime", **threads),
        *launched(9, "ncclDevKernel_Generic_4", 100, call="hipExtLaunchKernel", **told),
    ]
    trace = trace_of(tmp_path, events, deviceProperties=[{"id": 0, **gpu}])
    assert trace.collectives.op.tolist() == [Collective.ALL_REDUCE]
    assert trace.collectives.size_bytes.tolist() == [200]
    graph = build([trace])
    made = kernels(graph)[0]
    assert made is not None
    assert (made.work.family, made.launch.blocks) == (Family.MATRIX, 4)
    assert [gpu.name for gpu in graph.facts.gpus] == ["AMD Instinct MI300X VF"]


def test_a_generic_collective_is_told_by_the_call_around_its_launch(tmp_path: Path) -> None:
    call = {**operator(3, "nccl:reduce_scatter", 100), "cat": "user_annotation"}
    events = [operator(1, "aten::to", 0), call, *launched(9, "ncclDevKernel_Generic", 100)]
    trace = trace_of(tmp_path, events)
    assert trace.collectives.op.tolist() == [Collective.REDUCE_SCATTER]


def test_a_trace_of_an_intel_gpu_gives_work(tmp_path: Path) -> None:
    form = {"Input Dims": [[256], [256]], "Input type": ["float", "float"]}
    name = "at::native::xpu::VectorizedElementwiseKernel<4, at::native::xpu::AddFunctor<float>>"
    events = [
        operator(2, "aten::add", 0, form),
        *launched(8, name, 0, call="urEnqueueKernelLaunch", cat="xpu_runtime"),
    ]
    (made,) = kernels(build([trace_of(tmp_path, events)]))
    assert made is not None
    assert (made.operator, made.work.dims) == ("aten::add", Elements(256, 2))
