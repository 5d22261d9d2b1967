"""How far prices may be off: by basis, and kernels of a GPU by their class."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import parse
from paceline.cost import SPREAD, Basis, prices
from paceline.cost.spreads import CARRIED, CARRIED_FLOAT32, FORETOLD, spread_of, spreads_of
from paceline.graph import UNPRICED, DType, Facts, Graph, GraphBuilder, LaneKind
from paceline.graph.facts import RecordedGpu
from paceline.graph.work import Elements, Family, Matrix, Recorded, matrix, pointwise
from paceline.predict import predict

PRODUCT = matrix(Matrix(1, 4096, 4096, 4096), DType.BFLOAT16)
SUM = pointwise(Elements(1 << 24, 2), DType.BFLOAT16)


def kernels(dur_ns: int) -> Graph:
    """A product, a sum, and a kernel of which nothing is known."""
    b = GraphBuilder(facts=Facts(world_size=1, gpus=(RecordedGpu("h100"),)))
    lane = b.lane(0, "stream", kind=LaneKind.STREAM)
    for work in (PRODUCT, SUM):
        b.op("kernel", lane, dur_ns, dtype=work.dtype, flops=work.flops, step=0,
             size_bytes=work.size_bytes, work=Recorded("aten::any", work))  # fmt: skip
    b.op("kernel", lane, max(dur_ns, 0), step=0)
    return b.build()


def test_a_mean_error_is_a_share_of_the_price() -> None:
    for error in (*CARRIED.values(), *FORETOLD.values(), CARRIED_FLOAT32):
        assert 0 < error < 1


def test_kernels_that_are_carried_over_are_off_as_their_class_is() -> None:
    graph = kernels(100_000)
    found = spreads_of(graph, np.full(3, Basis.SCALED, np.uint8))
    assert found.tolist() == [
        CARRIED[Family.MATRIX], CARRIED[Family.POINTWISE], SPREAD[Basis.SCALED]
    ]  # fmt: skip


@pytest.mark.parametrize("basis", [b for b in Basis if b not in (Basis.SCALED, Basis.FORECAST)])
def test_any_other_price_is_off_as_its_basis_is(basis: Basis) -> None:
    found = spreads_of(kernels(100_000), np.full(3, basis, np.uint8))
    assert found.tolist() == [SPREAD[basis]] * 3
    assert spread_of(basis, Family.MATRIX) == SPREAD[basis]


def test_a_forecast_is_as_wide_when_it_is_priced_as_when_it_is_kept() -> None:
    found = prices(kernels(UNPRICED), parse("hosts: {count: 1, device: h100}\nlink: ethernet-1g"))
    assert found.high_ns[0] == pytest.approx(
        found.dur_ns[0] * (1 + FORETOLD[Family.MATRIX]), rel=1e-4
    )
    assert found.low_ns[1] == pytest.approx(
        found.dur_ns[1] / (1 + FORETOLD[Family.POINTWISE]), rel=1e-3
    )


def test_a_prediction_says_by_class_how_far_forecasts_may_be_off() -> None:
    there = parse("hosts: {count: 1, device: h100}\nlink: ethernet-1g")
    told = predict(kernels(UNPRICED), (), there).rests_on
    assert [reason.split(", ")[0] for reason in told if "on devices left out" in reason] == [
        "matrix", "pointwise"
    ]  # fmt: skip
    assert any("kernels: off by 18% on devices left out" in reason for reason in told)


def test_carried_products_in_float32_are_further_off() -> None:
    graph = kernels(100_000)
    full = np.full(3, DType.FLOAT32, np.uint8)
    graph = replace(graph, ops=replace(graph.ops, dtype=full))
    found = spreads_of(graph, np.full(3, Basis.SCALED, np.uint8))
    assert found.tolist() == [
        CARRIED_FLOAT32, CARRIED[Family.POINTWISE], SPREAD[Basis.SCALED]
    ]  # fmt: skip


def test_a_carried_steps_interval_follows_its_classes_and_is_said() -> None:
    made = predict(kernels(100_000), ["device(name='h200')"])
    assert made.prices is not None
    parts = made.prices.high_ns - made.prices.dur_ns
    assert made.high_ns - made.step_ns == pytest.approx(int(parts.sum()), abs=3)
    assert any("off by 17% between pairs of devices" in reason for reason in made.rests_on)
