"""Unpriced operators with known dimensions are forecast on GPUs."""

import numpy as np
import pytest

from paceline.cluster import Cluster, parse
from paceline.cost import price
from paceline.cost.forecast import ForecastQuestion, Kind, ask, forecast, keys, sheet_of, shipped
from paceline.cost.forecast.experts import EXPERTS
from paceline.graph import UNPRICED, Basis, DType, Graph, GraphBuilder
from paceline.graph.kinds import Vendor
from paceline.graph.scaled import scaled
from paceline.graph.work import (
    Attention,
    Elements,
    Family,
    Grouped,
    Matrix,
    Recorded,
    Work,
    attention,
    grouped,
    matrix,
)

PRODUCT = matrix(Matrix(1, 4096, 4096, 4096), DType.BFLOAT16)
UNKNOWN = Work(Family.SORT, DType.BFLOAT16, Elements(100, 1), 100, 200, 200)


def on(device: str) -> Cluster:
    return parse(f"hosts: {{count: 1, device: {device}}}\nlink: ethernet-1g\n")


def job(dtype: DType = DType.BFLOAT16) -> Graph:
    b = GraphBuilder()
    lane = b.lane(0, "work")
    for work in (PRODUCT, UNKNOWN, None):
        b.op(
            "op", lane, UNPRICED, dtype=dtype, flops=PRODUCT.flops,
            size_bytes=PRODUCT.size_bytes, work=None if work is None else Recorded("", work),
        )  # fmt: skip
    return b.build()


@pytest.mark.parametrize("device", ["h100", "a100-80"])
def test_a_product_on_a_gpu_takes_its_forecast(device: str) -> None:
    cluster = on(device)
    priced = price(job(), cluster)
    told = forecast([PRODUCT], sheet_of(cluster.hosts[0].device)).dur_ns[0]
    assert priced.ops.dur_ns[0] == round(float(told))
    assert [Basis(each) for each in priced.ops.basis] == [
        Basis.FORECAST,
        Basis.DATASHEET,
        Basis.DATASHEET,
    ]
    assert priced.ops.dur_ns[1] == priced.ops.dur_ns[2]


def test_on_a_processor_nothing_is_forecast() -> None:
    priced = price(job(DType.FLOAT32), on("epyc-2c"))
    assert (priced.ops.basis == Basis.DATASHEET).all()
    assert len(np.unique(priced.ops.dur_ns)) == 1


def test_an_operator_of_a_type_that_no_table_taught_goes_by_the_devices_rates() -> None:
    told = attention(Attention(8, 512, 512, 12, 12, 64, 64), DType.FLOAT32)
    b = GraphBuilder()
    b.op("attention", b.lane(0, "work"), UNPRICED, dtype=DType.FLOAT32, flops=told.flops,
         size_bytes=told.size_bytes, work=Recorded("", told))  # fmt: skip
    ops = price(b.build(), on("h100")).ops
    assert [Basis(each) for each in ops.basis] == [Basis.DATASHEET]
    assert ops.dur_ns[0] > told.flops / 66.9e12 * 1e9


def of_experts(rows: int, dtype: DType = DType.BFLOAT16, groups: int = 64) -> Graph:
    """Three products of `rows` rows by 64 experts of 2,048 x 1,408: gate, up and down."""
    b = GraphBuilder()
    lane = b.lane(0, "work")
    for wide, deep in ((1408, 2048), (1408, 2048), (2048, 1408)):
        work = grouped(Grouped(groups, rows, wide, deep), dtype)
        b.op("_grouped_mm", lane, UNPRICED, dtype=dtype, flops=work.flops,
             size_bytes=work.size_bytes, work=Recorded("aten::_grouped_mm", work))  # fmt: skip
    return b.build()


@pytest.mark.parametrize("device", ["h100", "a100-80", "b200"])
def test_products_of_experts_together_take_what_fused_experts_do(device: str) -> None:
    cluster = on(device)
    ops, sheet = price(of_experts(24_576), cluster).ops, sheet_of(cluster.hosts[0].device)
    assert (ops.basis == Basis.FORECAST).all()
    cells = (24_576, 2048, 1408, 1, 64, 1, 1, 0, 0)  # tokens of one expert each, by Triton
    dims = {name: np.array([cell], np.float32) for name, cell in zip(EXPERTS.columns, cells)}
    kind = Kind(EXPERTS, keys("experts", DType.BFLOAT16, sheet.vendor))
    fused_ns = float(ask(kind, ForecastQuestion(dims, DType.BFLOAT16, sheet), shipped()).dur_ns[0])
    assert ops.dur_ns.sum() == pytest.approx(fused_ns, rel=0.15)
    assert ops.dur_ns.sum() > ops.flops.sum() / sheet.peak(DType.BFLOAT16) * 1e9


def test_few_rows_of_many_experts_take_as_long_as_their_weights() -> None:
    few, more = (price(of_experts(rows), on("h100")).ops.dur_ns.sum() for rows in (64, 128))
    weights_ns = 3 * 64 * 2048 * 1408 * 2 / 3.35e12 * 1e9
    assert few > 0.5 * weights_ns
    assert more < 1.9 * few


def test_experts_in_eight_bits_go_by_their_own_table_and_in_float32_by_the_devices_rates() -> None:
    eight, full = (
        price(of_experts(24_576, t), on("h100")).ops for t in (DType.FLOAT8, DType.FLOAT32)
    )
    assert (eight.basis == Basis.FORECAST).all()
    assert (full.basis == Basis.DATASHEET).all()
    assert keys("experts", DType.FLOAT8, Vendor.NVIDIA)[0] == "experts.fp8_block.nvidia"


def test_a_scaled_operator_takes_its_share_of_the_forecast() -> None:
    whole = price(job(), on("h100")).ops.dur_ns[0]
    half = price(scaled(job(), np.array([0]), 0.5), on("h100")).ops.dur_ns[0]
    assert abs(half - whole / 2) <= 1
