"""Unpriced operators with known dimensions are forecast on GPUs."""

import numpy as np
import pytest

from paceline.cluster import Cluster, parse
from paceline.cost import price
from paceline.cost.forecast import forecast, sheet_of
from paceline.graph import UNPRICED, Basis, DType, Graph, GraphBuilder
from paceline.graph.scaled import scaled
from paceline.graph.work import (
    Attention,
    Elements,
    Family,
    Matrix,
    Recorded,
    Work,
    attention,
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


def test_a_scaled_operator_takes_its_share_of_the_forecast() -> None:
    whole = price(job(), on("h100")).ops.dur_ns[0]
    half = price(scaled(job(), np.array([0]), 0.5), on("h100")).ops.dur_ns[0]
    assert abs(half - whole / 2) <= 1
