"""Kernels of one rank on a device: products, attention and passes, each forecast once per shape."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from paceline.cost.forecast import Constants, ForecastQuestion, Kind, Sheet, ask, keys, shipped
from paceline.cost.forecast.asked import refined_by
from paceline.cost.forecast.attention import ATTENTION, LIBRARIES
from paceline.cost.forecast.product import PRODUCT
from paceline.graph.kinds import DType
from paceline.imagine.decoder import Core, Operator, Passes, Product

_BACK: Final = 2.9
"""Attention's backward pass over its forward one: 2.5 times the arithmetic, at 0.86 of the rate
(FlashAttention-3's published figures for heads of 128 and 8,192 to 16,384 tokens)."""
_MEMORY_SHARE: Final = 0.85
_LAUNCH_NS: Final = 3_000.0
"""From one kernel's end to the next one's start where the host runs ahead."""
_ADDED_BYTES: Final = 8.0  # per result that is read and written again, in float32
_ROWS: Final = 32_768.0
"""The tallest product in the tables; a taller one takes as much longer as it is taller."""

_Shape = tuple[int, int, int, int]  # b, m, n, k
_Sort = tuple[DType, bool, bool]  # type, scaled by blocks, several of one shape
_Cores = tuple[int, int, int, int, int]


class Kernels:
    """Nanoseconds of operators on one kind of device; what was asked once is remembered."""

    def __init__(self, sheet: Sheet, constants: Constants | None = None) -> None:
        self.sheet, self.constants = sheet, constants or shipped()
        self._products: dict[_Sort, dict[_Shape, float]] = {}
        self._cores: dict[_Cores, float] = {}

    def total_ns(self, operators: Iterable[Operator]) -> float:
        """All kernels among them, one after another."""
        listed = list(operators)
        self.learn(listed)
        return sum(self.ns(one) for one in listed)

    def ns(self, one: Operator) -> float:
        if isinstance(one, Product):
            return self._product_ns(one)
        if isinstance(one, Core):
            return self._core_ns(one)
        if isinstance(one, Passes):
            return one.size_bytes / self._bytes_per_ns + one.launches * _LAUNCH_NS
        return 0.0

    def learn(self, operators: Iterable[Operator]) -> None:
        """Ask for all shapes that are not known yet, one question per type."""
        wanted: dict[_Sort, set[_Shape]] = {}
        cores = set()
        for one in operators:
            if isinstance(one, Product):
                wanted.setdefault(_sort(one), set()).add(_shape(one))
            elif isinstance(one, Core):
                cores.add((one.b, one.s, one.heads, one.kv_heads, one.head_dim))
        for sort, shapes in wanted.items():
            self._learn_products(sort, shapes)
        self._learn_cores(cores)

    def _learn_products(self, sort: _Sort, shapes: set[_Shape]) -> None:
        known = self._products.setdefault(sort, {})
        new = sorted(shapes - known.keys())
        if not new:
            return
        columns = np.array(new, np.float32).T
        kind, dtype, depth = self._asked_as(sort)
        columns[PRODUCT.columns.index("k")] *= depth
        question = ForecastQuestion(dict(zip(PRODUCT.columns, columns)), dtype, self.sheet)
        known.update(zip(new, self._asked(kind, question)))

    def _asked_as(self, sort: _Sort) -> tuple[Kind, DType, float]:
        """The table of a product, and the share of its depth that is asked for.

        Products in 8 or 4 bits run like one in 16 bits of a half or a quarter of the depth: as many
        instructions, tiles and bytes. Asked so, because training runs them by cuBLAS, of which the
        tables have 16 bits alone; their own rows of 8 bits are of kernels for inference, which
        lose a third of their rate on large shapes. Blocks of 128 have a library of their own where
        the device does not scale them itself.
        """
        dtype, blockwise, several = sort
        vendor, task = self.sheet.vendor, "bmm" if several else "linear"
        if blockwise and DType.FLOAT4 not in self.sheet.matrix_flops:
            names = (f"linear.fp8_block.{vendor.value}", *keys(task, dtype, vendor))
            return Kind(PRODUCT, names), dtype, 1.0
        if dtype in (DType.FLOAT8, DType.FLOAT4):
            wide = DType.BFLOAT16
            depth = self.sheet.peak(wide) / self.sheet.peak(dtype)
            return Kind(PRODUCT, keys(task, wide, vendor)), wide, depth
        return Kind(PRODUCT, keys(task, dtype, vendor)), dtype, 1.0

    def _learn_cores(self, cores: set[_Cores]) -> None:
        new = sorted(cores - self._cores.keys())
        if not new:
            return
        library = _library(self.sheet)
        rows = np.array([(*core, 1, library) for core in new], np.float32).T
        question = ForecastQuestion(dict(zip(ATTENTION.columns, rows)), DType.BFLOAT16, self.sheet)
        kind = Kind(ATTENTION, keys("attention", DType.BFLOAT16, self.sheet.vendor))
        self._cores.update(zip(new, self._asked(kind, question)))

    def _asked(self, kind: Kind, question: ForecastQuestion) -> list[float]:
        """Nanoseconds, as the device itself showed them where it was measured."""
        found = ask(kind, question, self.constants)
        refinement = self.constants.refinement(self.sheet.name, kind.keys[:1])
        dur_ns: list[float] = refined_by(found, refinement, self.sheet.name).dur_ns.tolist()
        return dur_ns

    def _product_ns(self, one: Product) -> float:
        shape = _shape(one)
        alone = self._products[_sort(one)][shape] * one.m / shape[1]
        if one.added:
            alone = _beside(alone, _ADDED_BYTES * one.m * one.n / self._bytes_per_ns)
        return alone * one.count

    @property
    def _bytes_per_ns(self) -> float:
        return self.sheet.memory_bytes_per_s * _MEMORY_SHARE / 1e9

    def _core_ns(self, one: Core) -> float:
        found = self._cores[one.b, one.s, one.heads, one.kv_heads, one.head_dim]
        wide = (one.head_dim + one.value_dim) / (2 * one.head_dim)
        return found * one.share * wide * (_BACK if one.back else 1.0)


def _beside(one_ns: float, other_ns: float) -> float:
    """Arithmetic and traffic of one kernel: the longer one, and something of the other."""
    return float((one_ns**3 + other_ns**3) ** (1 / 3))


def _sort(one: Product) -> _Sort:
    return one.dtype, one.blockwise, one.b > 1


def _shape(one: Product) -> _Shape:
    return one.b, int(min(one.m, _ROWS)), one.n, one.k


def _library(sheet: Sheet) -> int:
    """The kernels of a device's generation, told by the types that it multiplies."""
    if DType.FLOAT4 in sheet.matrix_flops:
        return LIBRARIES.index("vllm_flashinfer_trtllmprefill")
    if DType.FLOAT8 in sheet.matrix_flops:
        return LIBRARIES.index("vllm_flash_attn_fa3")
    return LIBRARIES.index("vllm_flash_attn")
