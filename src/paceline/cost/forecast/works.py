"""Forecasts of `Work`: which method and constants serve a family, and its dimensions as columns."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np

from paceline.cost.errors import CostError
from paceline.cost.forecast.asked import Forecast, Kind, ask, refined_by
from paceline.cost.forecast.attention import ATTENTION
from paceline.cost.forecast.batch_norms import batch_norms
from paceline.cost.forecast.channels import ordered_s
from paceline.cost.forecast.convolution import CONVOLUTION
from paceline.cost.forecast.elements import ELEMENTS
from paceline.cost.forecast.experts import EXPERTS, LIBRARIES
from paceline.cost.forecast.learned import Constants, Refinement, shipped
from paceline.cost.forecast.method import Method, Question
from paceline.cost.forecast.moved import moved, relaid
from paceline.cost.forecast.product import PRODUCT
from paceline.cost.forecast.rows import ROWS
from paceline.cost.forecast.sheet import Sheet
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

_STANDS_FOR: Final[Mapping[DType, DType]] = {
    DType.FLOAT16: DType.BFLOAT16,
    DType.TFLOAT32: DType.BFLOAT16,
    DType.FLOAT64: DType.FLOAT32,
}
"""Types that take the constants of another where none of their own were fitted."""


_ON_MATRIX_UNITS: Final = (
    Family.MATRIX, Family.GROUPED_MATRIX, Family.CONVOLUTION, Family.ATTENTION,
)  # fmt: skip

_BY_BYTES: Final = frozenset({"softmax", "norm", "pointwise", "copy", "relaid"})
_BATCH_NORM: Final = "batch_norm"
"""No table holds it, and it has a method of its own."""
_LIKE: Final[Mapping[str, str]] = {
    "copy": "pointwise", "relaid": "pointwise", _BATCH_NORM: "norm",
}  # fmt: skip
"""Whose constants stand for those that a kind has not of its own."""

_TIMED_FROM_HOST: Final = DType.FLOAT32
"""Tables of this type are of calls that a host timed; those of others are of kernels."""
_COPIED: Final = (DType.FLOAT32, DType.BFLOAT16)
"""Types in which copies are measured: those of all others move bytes as they do."""

_SPELLED: Final[Mapping[DType, str]] = {DType.FLOAT8: "fp8", DType.FLOAT4: "nvfp4"}
_TABLED_AS: Final = {"experts.fp8": "experts.fp8_block"}
"""Where tables have another scaling of a type than products by themselves."""


class Timed(Enum):
    """From when to when an operator is timed."""

    KERNEL = "kernel"  # on the device alone, as traces tell it
    CALL = "call"  # with its host's launch, where that lasts longer


def forecast(
    works: Sequence[Work],
    sheet: Sheet,
    constants: Constants | None = None,
    timed: Timed = Timed.KERNEL,
) -> Forecast:
    """Nanoseconds of each operator on a device.

    Tables that were timed from the host hold its launches, of their own hosts. So they serve
    kernels on the devices that are in them; on any other one what the memory decides is told by
    bytes, and products and convolutions have the device's least time in place of the launch.
    """
    constants = constants or shipped()
    rows: dict[tuple[str, DType], list[int]] = defaultdict(list)
    for at, work in enumerate(works):
        rows[(task_of(work), _type_of(work, sheet))].append(at)
    dur, low, high = (np.zeros(len(works), np.float32) for _ in range(3))
    rests = set()
    for (task, dtype), mine in rows.items():
        kernel = timed is Timed.KERNEL and _from_host(task, dtype, sheet, constants)
        alone = kernel or task == _BATCH_NORM
        asked = _alone if alone else _as_tabled
        same = _Same(task, dtype, [_in_type(works[at], dtype) for at in mine])
        part = asked(same, sheet, constants)
        if alone or not _host_timed(task, dtype, sheet, constants):
            part = refined_by(part, same.refinement(sheet, constants), sheet.name)
        for column, told in ((dur, part.dur_ns), (low, part.low_ns), (high, part.high_ns)):
            column[mine] = told
        rests.add(part.rests_on)
    return Forecast(dur, low, high, "; ".join(sorted(rests)))


@dataclass(frozen=True)
class _Same:
    """Operators of one task and type."""

    task: str
    dtype: DType
    works: Sequence[Work]

    def question(self, sheet: Sheet) -> Question:
        method, columns = _TASKS[self.task]
        found = np.array([columns(work) for work in self.works], np.float32).T
        return Question(dict(zip(method.columns, found)), self.dtype, sheet)

    def kind(self, sheet: Sheet, launch_s: float | None = None) -> Kind:
        method, _ = _TASKS[self.task]
        return Kind(method, keys(self.task, self.dtype, sheet.vendor), launch_s)

    def refinement(self, sheet: Sheet, constants: Constants) -> Refinement | None:
        """By bytes one type tells of all; in products and attention none tells of another."""
        like = (self.dtype, _STANDS_FOR.get(self.dtype, self.dtype))
        own = _named(self.task, dict.fromkeys(like), sheet.vendor)
        if self.task not in _BY_BYTES:
            return constants.refinement(sheet.name, own)
        copied = _named(self.task, _COPIED, sheet.vendor) if self.task in _LIKE else ()
        found = keys(self.task, self.dtype, sheet.vendor)
        return constants.refinement(sheet.name, (*own, *copied, *found))


def _type_of(work: Work, sheet: Sheet) -> DType:
    """In which the device computes: one without TF32 runs such a convolution in float32."""
    rounds = work.family is Family.CONVOLUTION and work.dtype is DType.TFLOAT32
    return DType.FLOAT32 if rounds and not sheet.rate(DType.TFLOAT32) else work.dtype


def _in_type(work: Work, dtype: DType) -> Work:
    return work if work.dtype is dtype else replace(work, dtype=dtype)


def _as_tabled(
    same: _Same, sheet: Sheet, constants: Constants, launch_s: float | None = None
) -> Forecast:
    part = ask(same.kind(sheet, launch_s), same.question(sheet), constants)
    times = np.array([_times(work) for work in same.works], np.float32)
    return Forecast(part.dur_ns * times, part.low_ns * times, part.high_ns * times, part.rests_on)


def _alone(same: _Same, sheet: Sheet, constants: Constants) -> Forecast:
    """Without the host's launch."""
    if same.task == _BATCH_NORM:
        return batch_norms(same.works, sheet)
    if same.task in _BY_BYTES:
        return moved(same.works, sheet)
    part = _as_tabled(same, sheet, constants, sheet.least_s)
    more = np.array([ordered_s(work, sheet) for work in same.works], np.float32) * np.float32(1e9)
    return Forecast(part.dur_ns + more, part.low_ns + more, part.high_ns + more, part.rests_on)


def _host_timed(task: str, dtype: DType, sheet: Sheet, constants: Constants) -> bool:
    """Whether the constants that serve are of calls that a host timed."""
    key = constants.first_of(keys(task, dtype, sheet.vendor))
    return key in _keys(task, (_TIMED_FROM_HOST,), sheet.vendor)


def _from_host(task: str, dtype: DType, sheet: Sheet, constants: Constants) -> bool:
    """Whether the constants that serve hold launches of other devices' hosts."""
    own, tabled = (_keys(task, (one,), sheet.vendor) for one in (dtype, _TIMED_FROM_HOST))
    key = constants.first_of(keys(task, dtype, sheet.vendor))
    if key not in tabled:
        return False
    return key not in own or constants.learned[key].known_as(sheet.name) is None


def forecastable(work: Work, sheet: Sheet) -> bool:
    """Whether there is a method for the operator, and the sheet has what it needs."""
    return (
        work.is_known
        and (work.family in (Family.MATRIX, Family.COPY) or work.family in _OF_FAMILY)
        and (work.family not in _ON_MATRIX_UNITS or _has_type(work, sheet))
    )


def _has_type(work: Work, sheet: Sheet) -> bool:
    """Of products in TF32 no table tells."""
    if work.family is Family.CONVOLUTION:
        return sheet.rate(_type_of(work, sheet)) > 0
    return work.dtype in sheet.matrix_flops


def keys(task: str, dtype: DType, vendor: Vendor) -> tuple[str, ...]:
    """Where constants may lie, best first. Element-wise ones are told by their bytes alone. Batched
    products of a type that no table holds go by single ones of it, which run on the same units."""
    own = tuple(dict.fromkeys((dtype, _STANDS_FOR.get(dtype, dtype))))
    single = _keys("linear", own, vendor) if task == "bmm" and DType.FLOAT32 not in own else ()
    return (*_keys(task, own, vendor), *single, *_keys(task, (DType.FLOAT32,), vendor))


def _keys(task: str, types: Iterable[DType], vendor: Vendor) -> tuple[str, ...]:
    types = tuple(types)
    like = _named(_LIKE[task], types, vendor) if task in _LIKE else ()
    return (*_named(task, types, vendor), *like)


def _named(task: str, types: Iterable[DType], vendor: Vendor) -> tuple[str, ...]:
    vendors = dict.fromkeys((vendor, Vendor.NVIDIA))
    names = [_SPELLED.get(one, one.name.lower()) for one in types]
    kinds = [_TABLED_AS.get(f"{task}.{name}", f"{task}.{name}") for name in names]
    return tuple(f"{kind}.{maker.value}" for kind in kinds for maker in vendors)


def task_of(work: Work) -> str:
    """Which constants an operator takes."""
    if work.family is Family.MATRIX:
        assert isinstance(work.dims, Matrix)
        return "bmm" if work.dims.b > 1 else "linear"
    if work.family is Family.COPY:
        return "relaid" if relaid(work) else "copy"
    if work.family not in _OF_FAMILY:
        raise CostError(
            f"{work.family.name.lower()} has no forecast; known are matrix, "
            f"copy, {', '.join(family.name.lower() for family in _OF_FAMILY)}"
        )
    return _OF_FAMILY[work.family]


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
_PRODUCTS_OF_EXPERTS: Final = 3
"""In the tables' fused kernels: gate, up and down, each of as much arithmetic."""


def _times(work: Work) -> float:
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


def _elements(work: Work) -> tuple[float, ...]:
    dims = work.dims
    if isinstance(dims, Elements):
        count, inputs = dims.count, dims.inputs
    else:
        assert isinstance(dims, Rows)
        count, inputs = dims.rows * dims.columns, 1
    return max(count, 1), min(inputs, 2), max(work.read_bytes + work.written_bytes, 1), -1


_TASKS: Final[Mapping[str, tuple[Method, Callable[[Work], tuple[float, ...]]]]] = {
    "bmm": (PRODUCT, _matrix),
    "linear": (PRODUCT, _matrix),
    "convolution": (CONVOLUTION, _convolution),
    "softmax": (ROWS, _rows),
    "norm": (ROWS, _rows),
    _BATCH_NORM: (ROWS, _rows),
    "pointwise": (ELEMENTS, _elements),
    "copy": (ELEMENTS, _elements),
    "relaid": (ELEMENTS, _elements),
    "attention": (ATTENTION, _attention),
    "experts": (EXPERTS, _grouped),
}
_OF_FAMILY: Final[Mapping[Family, str]] = {
    Family.CONVOLUTION: "convolution",
    Family.SOFTMAX: "softmax",
    Family.NORM: "norm",
    Family.BATCH_NORM: _BATCH_NORM,
    Family.ATTENTION: "attention",
    Family.GROUPED_MATRIX: "experts",
    **dict.fromkeys(
        (Family.POINTWISE, Family.REDUCTION, Family.EMBEDDING, Family.LOSS,
         Family.OPTIMIZER, Family.POOLING), "pointwise"),
}  # fmt: skip
