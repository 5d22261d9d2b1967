"""Kinds of operators as forecasts have them: which method serves one, its dimensions as columns,
and under which keys its constants lie.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from paceline.cost.errors import CostError
from paceline.cost.forecast.attention import ATTENTION
from paceline.cost.forecast.convolution import CONVOLUTION
from paceline.cost.forecast.elements import ELEMENTS
from paceline.cost.forecast.experts import EXPERTS, LIBRARIES
from paceline.cost.forecast.method import Method
from paceline.cost.forecast.moved import relaid
from paceline.cost.forecast.product import PRODUCT
from paceline.cost.forecast.rows import ROWS
from paceline.graph.kinds import DType, Vendor
from paceline.graph.work import (
    Attention,
    Convolution,
    Elements,
    Family,
    Grouped,
    Matrix,
    Rows,
    Way,
    Work,
    attention,
)

STANDS_FOR: Final[Mapping[DType, DType]] = {
    DType.FLOAT16: DType.BFLOAT16,
    DType.TFLOAT32: DType.BFLOAT16,
    DType.FLOAT64: DType.FLOAT32,
}
"""Types that take the constants of another where none of their own were fitted."""
BATCH_NORM: Final = "batch_norm"
"""No table holds it, and it has a method of its own."""
LIKE: Final[Mapping[str, str]] = {
    "copy": "pointwise", "relaid": "pointwise", BATCH_NORM: "norm",
}  # fmt: skip
"""Whose constants stand for those that a kind has not of its own."""
_SPELLED: Final[Mapping[DType, str]] = {DType.FLOAT8: "fp8", DType.FLOAT4: "nvfp4"}
_TABLED_AS: Final = {"experts.fp8": "experts.fp8_block"}
"""Where tables have another scaling of a type than products by themselves."""


def task_of(work: Work) -> str:
    """Which constants an operator takes."""
    if work.family is Family.MATRIX:
        assert isinstance(work.dims, Matrix)
        return "bmm" if work.dims.b > 1 else "linear"
    if work.family is Family.COPY:
        return "relaid" if relaid(work) else "copy"
    if work.family not in OF_FAMILY:
        raise CostError(
            f"{work.family.name.lower()} has no forecast; known are matrix, "
            f"copy, {', '.join(family.name.lower() for family in OF_FAMILY)}"
        )
    return OF_FAMILY[work.family]


def keys(task: str, dtype: DType, vendor: Vendor) -> tuple[str, ...]:
    """Where constants may lie, best first. Element-wise ones are told by their bytes alone. Batched
    products of a type that no table holds go by single ones of it, which run on the same units."""
    own = tuple(dict.fromkeys((dtype, STANDS_FOR.get(dtype, dtype))))
    single = keys_in("linear", own, vendor) if task == "bmm" and DType.FLOAT32 not in own else ()
    return (*keys_in(task, own, vendor), *single, *keys_in(task, (DType.FLOAT32,), vendor))


def keys_in(task: str, types: Iterable[DType], vendor: Vendor) -> tuple[str, ...]:
    """In these types alone; what goes by another kind's has those behind its own."""
    types = tuple(types)
    like = named_keys(LIKE[task], types, vendor) if task in LIKE else ()
    return (*named_keys(task, types, vendor), *like)


def named_keys(task: str, types: Iterable[DType], vendor: Vendor) -> tuple[str, ...]:
    """Of that kind alone, in these types."""
    vendors = dict.fromkeys((vendor, Vendor.NVIDIA))
    names = [_SPELLED.get(one, one.name.lower()) for one in types]
    kinds = [_TABLED_AS.get(f"{task}.{name}", f"{task}.{name}") for name in names]
    return tuple(f"{kind}.{maker.value}" for kind in kinds for maker in vendors)


_PRODUCTS_OF_EXPERTS: Final = 3
"""In the tables' fused kernels: gate, up and down, each of as much arithmetic."""


def times_of(work: Work) -> float:
    """By what the tables' operator is multiplied. They tell forward passes alone: attention's
    backward pass is worth as many as its arithmetic is, a convolution's two where it makes both
    gradients; a grouped product is one of fused experts'.
    """
    if work.family is Family.CONVOLUTION:
        return 2.0 if work.way is Way.BACKWARD else 1.0
    if work.family is Family.GROUPED_MATRIX:
        return 1 / _PRODUCTS_OF_EXPERTS
    if work.family is not Family.ATTENTION or work.way is Way.FORWARD:
        return 1.0
    assert isinstance(work.dims, Attention)
    return work.flops / max(1, attention(work.dims, work.dtype).flops)


def _matrix(work: Work) -> tuple[float, ...]:
    dims = work.dims
    assert isinstance(dims, Matrix)
    return dims.b, dims.m, dims.n, dims.k


def _convolution(work: Work) -> tuple[float, ...]:
    dims = work.dims
    assert isinstance(dims, Convolution)
    return (
        dims.b, dims.channels_in, dims.channels_out, dims.size_in, dims.size_out,
        dims.kernel / dims.groups, dims.stride,
    )  # fmt: skip


def _rows(work: Work) -> tuple[float, ...]:
    dims = work.dims
    assert isinstance(dims, Rows)
    return dims.rows, dims.columns, work.read_bytes + work.written_bytes


def _attention(work: Work) -> tuple[float, ...]:
    dims = work.dims
    assert isinstance(dims, Attention)
    return dims.b, max(dims.s, dims.s_kv), dims.heads, dims.kv_heads, dims.d, dims.causal, -1


def _grouped(work: Work) -> tuple[float, ...]:
    """As fused experts of one expert a token, by the kernel that was measured on every device."""
    dims = work.dims
    assert isinstance(dims, Grouped)
    return dims.m, dims.k, dims.n, 1, dims.groups, 1, 1, 0, _EVERYWHERE


_EVERYWHERE: Final = LIBRARIES.index("sglang_fused_moe_triton")


def _elements(work: Work) -> tuple[float, ...]:
    dims = work.dims
    if isinstance(dims, Elements):
        count, inputs = dims.count, dims.inputs
    else:
        assert isinstance(dims, Rows)
        count, inputs = dims.rows * dims.columns, 1
    return max(count, 1), min(inputs, 2), max(work.read_bytes + work.written_bytes, 1), -1


TASKS: Final[Mapping[str, tuple[Method, Callable[[Work], tuple[float, ...]]]]] = {
    "bmm": (PRODUCT, _matrix),
    "linear": (PRODUCT, _matrix),
    "convolution": (CONVOLUTION, _convolution),
    "softmax": (ROWS, _rows),
    "norm": (ROWS, _rows),
    BATCH_NORM: (ROWS, _rows),
    "pointwise": (ELEMENTS, _elements),
    "copy": (ELEMENTS, _elements),
    "relaid": (ELEMENTS, _elements),
    "attention": (ATTENTION, _attention),
    "experts": (EXPERTS, _grouped),
}
OF_FAMILY: Final[Mapping[Family, str]] = {
    Family.CONVOLUTION: "convolution",
    Family.SOFTMAX: "softmax",
    Family.NORM: "norm",
    Family.BATCH_NORM: BATCH_NORM,
    Family.ATTENTION: "attention",
    Family.GROUPED_MATRIX: "experts",
    **dict.fromkeys(
        (Family.POINTWISE, Family.REDUCTION, Family.EMBEDDING, Family.LOSS,
         Family.OPTIMIZER, Family.POOLING), "pointwise"),
}  # fmt: skip
