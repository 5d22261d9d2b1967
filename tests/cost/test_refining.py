"""Forecasts of a device are corrected by what was measured on that very device."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paceline.cli import main
from paceline.cluster.files import device
from paceline.cost import CostError
from paceline.cost.decoder.kernels import Kernels
from paceline.cost.forecast import (
    Constants,
    Timed,
    forecast,
    forecast_both,
    load,
    sheet_of,
    shipped,
)
from paceline.cost.forecast.refining import refined
from paceline.cost.forecast.tables import samples
from paceline.graph.kinds import DType
from paceline.graph.work import (
    Attention,
    Elements,
    Matrix,
    Rows,
    Work,
    attention,
    copied,
    matrix,
    moved,
    pointwise,
)
from paceline.graph.work import norm as normed
from paceline.imagine.decoder import Product

H100, H200 = (sheet_of(device(name)) for name in ("h100", "h200"))
SIZES = (512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 8192)
PRODUCT = matrix(Matrix(1, 3000, 3000, 3000), DType.BFLOAT16)
SMALL = matrix(Matrix(1, 512, 512, 512), DType.BFLOAT16)
CORE = attention(Attention(4, 16, 16, 2048, 2048, 128, 128, causal=True), DType.BFLOAT16)
SUM = pointwise(Elements(1 << 24, 2), DType.BFLOAT16)


def square(size: int) -> Work:
    return matrix(Matrix(1, size, size, size), DType.BFLOAT16)


def ns(work: Work, constants: Constants | None = None, on: object = H100) -> float:
    return float(forecast([work], on, constants).dur_ns[0])  # type: ignore[arg-type]


def sheet_file(
    folder: Path, factor: Callable[[float], float], sizes: Sequence[int] = SIZES
) -> Path:
    """Products that take `factor` times as long as forecast, which is a function of that."""
    rows = [
        f"h100,bfloat16,{size},{size},{size},{told * factor(told) / 1e6}"
        for size in sizes
        for told in (ns(square(size)),)
    ]
    (folder / "devices.yaml").write_text("h100: {preset: h100}\n")
    (folder / "gemm.csv").write_text("device,dtype,m,n,k,ms\n" + "\n".join(rows) + "\n")
    return folder


def mine(folder: Path, factor: Callable[[float], float] = lambda told: 1.4) -> Constants:
    return refined(shipped(), samples(sheet_file(folder, factor)))[0]


def test_products_of_a_measured_device_take_as_long_as_they_did(tmp_path: Path) -> None:
    made = mine(tmp_path)
    for work in (PRODUCT, SMALL, square(20_000)):
        assert ns(work, made) == pytest.approx(1.4 * ns(work), rel=1e-3)
    found = forecast([PRODUCT], H100, made)
    assert found.rests_on == "refined on this h100"
    assert found.high_ns[0] / found.dur_ns[0] < 1.01, "every row was off by the same"


def test_nothing_else_changes(tmp_path: Path) -> None:
    made = mine(tmp_path)
    assert ns(PRODUCT, made, H200) == ns(PRODUCT, on=H200)
    for work in (CORE, SUM, matrix(Matrix(8, 512, 512, 64), DType.BFLOAT16)):
        assert ns(work, made) == ns(work)


def test_small_kernels_are_corrected_by_what_small_ones_took(tmp_path: Path) -> None:
    made = mine(tmp_path, lambda told: 3.0 if told < 20_000 else 1.1)
    assert ns(SMALL, made) == pytest.approx(3.0 * ns(SMALL), rel=0.05)
    assert ns(square(8192), made) == pytest.approx(1.1 * ns(square(8192)), rel=0.05)


def test_how_far_it_is_off_is_told_by_rows_that_it_was_not_taken_from(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).lognormal(0, 0.1, len(SIZES)).tolist()
    _, (row,) = refined(shipped(), samples(sheet_file(tmp_path, lambda told: 1.5 * noise.pop())))
    assert (row.device, row.key, row.rows) == ("h100", "linear.bfloat16.nvidia", len(SIZES))
    assert row.before == pytest.approx(1 - 1 / 1.5, abs=0.1)
    assert 0.02 < row.after < 0.15


def test_one_row_shifts_all_of_its_kind_and_promises_nothing(tmp_path: Path) -> None:
    told = samples(sheet_file(tmp_path, lambda told: 1.4, sizes=(2048,)))
    made, (row,) = refined(shipped(), told)
    assert ns(PRODUCT, made) == pytest.approx(1.4 * ns(PRODUCT), rel=1e-3)
    assert row.after == row.before > 0.2


def test_elements_measured_in_one_type_tell_of_all(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text("h100: {preset: h100}\n")
    rows = [f"h100,add,float32,1,{count},{_sum_ms(count)}" for count in (1 << 20, 1 << 26, 1 << 28)]
    rows += [f"h100,ln,float32,{count},1024,{_norm_ms(count)}" for count in (64, 4096)]
    (tmp_path / "vector.csv").write_text("device,op,dtype,b,k,ms\n" + "\n".join(rows))
    made = refined(shipped(), samples(tmp_path))[0]
    for work in (SUM, pointwise(Elements(1 << 24, 2), DType.FLOAT32)):
        assert ns(work, made) == pytest.approx(2 * ns(work), rel=1e-3)
    norm = normed(Rows(512, 1024), DType.BFLOAT16)
    assert ns(norm, made) == pytest.approx(3 * ns(norm), rel=1e-3)


def test_copies_of_all_types_are_corrected_by_copies_and_sums_by_sums(tmp_path: Path) -> None:
    made = refined(shipped(), samples(_copies(tmp_path)))[0]
    size = 1 << 26
    casts = copied(size, DType.FLOAT32, DType.BFLOAT16)
    for work in (moved(size, size), copied(size, DType.INT32, DType.INT64), casts):
        assert ns(work, made) == pytest.approx(1.5 * ns(work), rel=1e-3)
    for dtype in (DType.BFLOAT16, DType.FLOAT32):
        assert ns(copied(size, dtype), made) == pytest.approx(4 * ns(copied(size, dtype)), rel=1e-3)
    assert ns(SUM, made) == pytest.approx(2 * ns(SUM), rel=1e-3)


def test_where_no_copy_was_measured_copies_are_corrected_as_elements_are(tmp_path: Path) -> None:
    made = refined(shipped(), samples(_copies(tmp_path, "add")))[0]
    copy = copied(1 << 26, DType.BFLOAT16)
    assert ns(copy, made) == pytest.approx(2 * ns(copy), rel=1e-3)


def _copies(folder: Path, *operators: str) -> Path:
    """Sums that take twice as long as forecast, plain copies 1.5 times, and ones that change the
    layout four times."""
    forecasts = {
        "add": (2.0, lambda count: pointwise(Elements(count, 2), DType.BFLOAT16)),
        "copy": (1.5, lambda count: moved(2 * count, 2 * count)),
        "relaid": (4.0, lambda count: copied(count, DType.BFLOAT16)),
    }
    rows = [
        f"h100,{name},bfloat16,1,{count},{factor * ns(made(count)) / 1e6}"
        for name, (factor, made) in forecasts.items()
        for count in (1 << 20, 1 << 26)
        if name in (operators or forecasts)
    ]
    (folder / "devices.yaml").write_text("h100: {preset: h100}\n")
    (folder / "vector.csv").write_text("device,op,dtype,b,k,ms\n" + "\n".join(rows))
    return folder


def _sum_ms(count: int) -> float:
    return 2 * ns(pointwise(Elements(count, 2), DType.FLOAT32)) / 1e6


def _norm_ms(count: int) -> float:
    return 3 * ns(normed(Rows(count, 1024), DType.FLOAT32)) / 1e6


def test_calls_that_a_host_timed_are_not_corrected_by_kernels(tmp_path: Path) -> None:
    made = mine(tmp_path)
    product = matrix(Matrix(1, 4096, 4096, 4096), DType.FLOAT32)
    for constants in (None, made):
        called = forecast([product], H100, constants, Timed.CALL).dur_ns[0]
        assert called == forecast([product], H100, None, Timed.CALL).dur_ns[0]


def test_a_measured_device_is_not_set_beside_one_that_was_not(tmp_path: Path) -> None:
    made = mine(tmp_path)
    here, there = (forecast_both([PRODUCT], H100, H200, one) for one in (None, made))
    assert here.here_ns == there.here_ns
    assert here.there_ns == there.there_ns
    both = replace(made, refined=dict.fromkeys(("h100", "h200"), made.refined["h100"]))
    assert forecast_both([PRODUCT], H100, H200, both).here_ns > 1.3 * here.here_ns


def test_plans_of_language_models_are_priced_by_it_too(tmp_path: Path) -> None:
    made, one = mine(tmp_path), Product("up", 4096, 4096, 4096, DType.BFLOAT16)
    plain, refined_ = (Kernels(H100, constants).total_ns([one]) for constants in (None, made))
    assert refined_ == pytest.approx(1.4 * plain, rel=1e-3)


def test_collectives_cannot_be_refined(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text("h100: {preset: h100}\n")
    (tmp_path / "nccl.csv").write_text(
        "device,op,dtype,gpus,bytes,nccl,ms\nh100,all_reduce,bfloat16,8,1048576,2.27,0.05\n"
    )
    with pytest.raises(CostError, match=r"domain.float16.nvidia cannot be refined"):
        refined(shipped(), samples(tmp_path))


def test_fit_refines_the_shipped_constants_in_a_moment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "here.npz"
    asked = ["fit", str(sheet_file(tmp_path, lambda told: 1.4)), "--refine", "-o", str(out)]
    assert main([*asked, "--source", "the one under my desk"]) == 0
    said = capsys.readouterr().out
    assert "linear.bfloat16.nvidia" in said
    assert "off by 29%, refined 0%" in said
    kept = load(out).over(shipped())
    assert ns(PRODUCT, kept) == pytest.approx(1.4 * ns(PRODUCT), rel=1e-3)
    assert "the one under my desk, refined on h100" in kept.source
    assert main([*asked, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["refined"]
    assert row["rows"] == len(SIZES)
