"""Forecasts from data sheets: laws that hold on any device, fitting, files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster.files import device
from paceline.cost import CostError
from paceline.cost.forecast import (
    Constants,
    ForecastQuestion,
    forecast,
    keys,
    load,
    save,
    sheet_of,
    shipped,
)
from paceline.cost.forecast.attention import ATTENTION
from paceline.cost.forecast.elements import ELEMENTS
from paceline.cost.forecast.experts import EXPERTS
from paceline.cost.forecast.fitting import Effort, Sample, error_of, fit, held_back, left_out
from paceline.cost.forecast.method import Estimate, Method
from paceline.cost.forecast.net import Learning, learn
from paceline.cost.forecast.product import PRODUCT
from paceline.cost.forecast.rows import ROWS
from paceline.cost.forecast.tables import samples
from paceline.graph.kinds import DType, Vendor
from paceline.graph.work import Elements, Matrix, Rows, matrix, pointwise, softmax

H100 = sheet_of(device("h100"))
FEW = Learning(hidden=(8, 8), steps=400, batch=64)
QUICK = Effort(known=FEW, alike=FEW)
VALUES = {one.name: one.typical for one in PRODUCT.coefficients}


def products(m: float, n: float, k: float) -> dict[str, np.ndarray]:
    return {name: np.array([size], np.float32) for name, size in zip("bmnk", (1, m, n, k))}


def drawn(sheet_name: str, count: int = 300) -> Sample:
    """Copies that take 20 us and their bytes at 80 % of the memory's rate."""
    sheet = sheet_of(device(sheet_name))
    moved = np.geomspace(1e3, 1e10, count).astype(np.float32)
    ones = np.ones_like(moved)
    dims = {"count": moved / 8, "inputs": ones, "size_bytes": moved, "operator": -ones}
    seconds = 20e-6 + moved / np.float32(0.8 * sheet.memory_bytes_per_s)
    return Sample(
        ELEMENTS, ForecastQuestion(dims, DType.FLOAT32, sheet), seconds.astype(np.float32)
    )


@given(*[st.integers(1, 20_000)] * 3)
@settings(max_examples=50)
def test_formulas_never_let_a_product_beat_the_peak(m: int, n: int, k: int) -> None:
    question = ForecastQuestion(products(m, n, k), DType.BFLOAT16, H100)
    took = float(PRODUCT.estimate(question, VALUES).seconds[0])
    assert took >= 2 * m * n * k / H100.peak(DType.BFLOAT16)


def estimated(method: Method, columns: Mapping[str, Sequence[float]], **values: float) -> Estimate:
    dims = {name: np.array(column, np.float32) for name, column in columns.items()}
    typical = {one.name: one.typical for one in method.coefficients}
    return method.estimate(ForecastQuestion(dims, DType.BFLOAT16, H100), {**typical, **values})


def test_large_rows_pass_through_memory_as_fast_as_it_is() -> None:
    rows = {"rows": [1e3], "columns": [1e6], "size_bytes": [8e9]}
    whole, half = (estimated(ROWS, rows, memory=share).seconds[0] for share in (0.8, 0.4))
    assert half == pytest.approx(2 * whole, rel=0.01)


def test_kernels_of_attention_are_told_apart_one_by_one() -> None:
    dims = {"b": 1, "s": 1024, "heads": 8, "kv_heads": 8, "head_dim": 128, "causal": 1}
    columns = {name: [size] * 6 for name, size in dims.items()} | {"library": range(-1, 5)}
    told = estimated(ATTENTION, columns).features[:, -5:]
    assert told.tolist() == [[0] * 5, *np.eye(5).tolist()]


def test_a_net_is_told_the_rows_of_each_expert() -> None:
    """1000 tokens go to two of eight experts each: 250 rows for each."""
    dims = {"tokens": 1000, "hidden": 4096, "intermediate": 3000, "top_k": 2, "experts": 8,
            "tp": 1, "ep": 1, "skew": 0, "library": -1}  # fmt: skip
    told = estimated(EXPERTS, {name: [size] for name, size in dims.items()}).features[0]
    assert np.isclose(told, np.log(250), rtol=1e-5).sum() == 1


@given(st.integers(16, 4096))
def test_formulas_take_longer_for_a_longer_inner_dimension(k: int) -> None:
    short, long = (
        float(PRODUCT.estimate(asked, VALUES).seconds[0])
        for size in (k, 2 * k)
        for asked in (ForecastQuestion(products(4096, 4096, size), DType.BFLOAT16, H100),)
    )  # fmt: skip
    assert long >= short


def test_works_of_several_families_are_forecast_in_their_order() -> None:
    works = [
        matrix(Matrix(1, 4096, 4096, 4096), DType.FLOAT32),
        pointwise(Elements(1 << 24), DType.FLOAT32),
        softmax(Rows(4096, 1024), DType.FLOAT32),
        matrix(Matrix(1, 2048, 4096, 4096), DType.FLOAT32),
    ]
    found = forecast(works, H100)
    roofline = [work.flops / 66.9e12 if work.flops > 1e9 else 0 for work in works]
    assert (found.dur_ns / 1e9 >= 0.9 * np.array(roofline)).all()
    assert found.dur_ns[0] > found.dur_ns[3]
    assert (found.low_ns < found.dur_ns).all()
    assert (found.dur_ns < found.high_ns).all()


def test_a_batch_of_columns_is_forecast_as_each_alone() -> None:
    works = [matrix(Matrix(1, 64 * i, 512, 512), DType.BFLOAT16) for i in range(1, 40)]
    together = forecast(works, H100).dur_ns
    alone = [float(forecast([work], H100).dur_ns[0]) for work in works]
    assert together == pytest.approx(alone, rel=1e-4)


def test_a_board_at_its_power_limit_holds_less_than_its_boost_clock() -> None:
    assert sheet_of(device("t4")).sustained() < 0.5
    assert H100.sustained() == 1
    assert replace(H100, vendor=Vendor.AMD, watts=10).sustained() == 1
    assert replace(H100, matrix_flops={}, watts=10).sustained() == 1


def test_a_type_without_a_rate_is_refused_by_name() -> None:
    with pytest.raises(CostError, match="no rate for float8"):
        forecast([matrix(Matrix(1, 64, 64, 64), DType.FLOAT8)], sheet_of(device("a100-80")))


def test_types_without_constants_take_those_of_their_like() -> None:
    wanted = keys("linear", DType.FLOAT16, Vendor.AMD)
    assert wanted[0] == "linear.float16.amd"
    assert shipped().of(wanted) is shipped().learned["linear.bfloat16.nvidia"]


def test_a_fit_recovers_what_measurements_were_drawn_from_on_a_device_left_out() -> None:
    errors = left_out([drawn("v100"), drawn("a100-80"), drawn("h100")], QUICK)
    assert set(errors) == {"v100", "a100-80", "h100"}
    assert max(errors.values()) < 0.15


def test_a_net_wins_on_shapes_held_back_of_devices_it_knows() -> None:
    kept, held = zip(*(held_back(drawn(name)) for name in ("v100", "h100")))
    assert all(0.1 < len(h) / (len(h) + len(k)) < 0.3 for k, h in zip(kept, held))
    known = fit(kept, QUICK)
    formulas = fit(kept, known=False)
    assert error_of(known, held[0]) < error_of(formulas, held[0])


def test_learning_is_the_same_for_the_same_seed() -> None:
    inputs = np.random.default_rng(1).standard_normal((200, 3)).astype(np.float32)
    wanted, weight = inputs[:, 0] * 2, np.ones(200)
    first, again = (
        learn(inputs, wanted, weight, Learning(hidden=(8, 8), steps=300, batch=64))
        for _ in range(2)
    )
    assert (first(inputs) == again(inputs)).all()
    assert np.abs(first(inputs) - wanted).mean() < 0.3


def test_constants_come_back_from_their_file(tmp_path: Path) -> None:
    fitted = fit([drawn("v100"), drawn("h100")], QUICK)
    save(Constants({"pointwise.float32.nvidia": fitted}, "drawn", "2026-01-01"), tmp_path / "c.npz")
    found = load(tmp_path / "c.npz")
    sample = drawn("h100")
    assert found.source == "drawn"
    assert error_of(found.learned["pointwise.float32.nvidia"], sample) == pytest.approx(
        error_of(fitted, sample), abs=0.01
    )


def test_tables_are_read_with_their_sheets(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text(
        "x: {kind: gpu, memory_rate: 1TB/s, flops: {bfloat16: 100TFLOPS}}\n"
    )
    (tmp_path / "gemm.csv").write_text("device,dtype,m,n,k,ms,kernel\nx,bfloat16,8,16,32,0.5,any\n")
    (sample,) = samples(tmp_path)["linear.bfloat16.nvidia"]
    assert {name: column.tolist() for name, column in sample.question.dims.items()} == {
        "b": [1], "m": [8], "n": [16], "k": [32]
    }  # fmt: skip
    assert sample.seconds.tolist() == [pytest.approx(5e-4)]
    assert sample.question.sheet.assumed == ("units", "clock_hz", "cache_bytes")
    (tmp_path / "gemm.csv").write_text("device,dtype,m,n,k,ms\ny,bfloat16,8,16,32,0.5\n")
    with pytest.raises(CostError, match="names device 'y'"):
        samples(tmp_path)
