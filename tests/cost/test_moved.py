"""Kernels that the memory decides take their bytes' time, without the launch of a host."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.files import device
from paceline.cost.achieved import achieved, achieved_memory
from paceline.cost.forecast import Forecast, Timed, forecast, sheet_of
from paceline.cost.ported import Kernels, kernel_rows
from paceline.graph.kinds import DType
from paceline.graph.work import (
    Elements,
    Family,
    Matrix,
    Rows,
    Work,
    copied,
    embedding,
    matrix,
    norm,
    pointwise,
    softmax,
)
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources

H100, T4 = sheet_of(device("h100")), sheet_of(device("t4"))
BF16 = DType.BFLOAT16
US = 1e3


def on_h100(*works: Work, timed: Timed = Timed.KERNEL) -> Forecast:
    return forecast(works, H100, timed=timed)


def ns(work: Work) -> float:
    return float(on_h100(work).dur_ns[0])


SMALL = (
    pointwise(Elements(141 * 512), BF16),
    norm(Rows(141, 512), BF16),
    softmax(Rows(141, 141), BF16),
    embedding(Rows(141, 512), BF16),
)


@pytest.mark.parametrize("work", SMALL, ids=lambda work: work.family.name.lower())
def test_a_small_kernel_takes_microseconds_and_its_call_as_long_as_the_launch(work: Work) -> None:
    assert 1.4 * US < ns(work) < 5 * US
    assert on_h100(work, timed=Timed.CALL).dur_ns[0] > 20 * US


def test_a_large_kernel_takes_its_bytes_at_the_rate_that_the_memory_reaches() -> None:
    work = pointwise(Elements(1 << 30), BF16)
    memory = achieved_memory(device("h100"))
    whole = work.size_bytes / memory.bytes_per_s * 1e9 + memory.least_ns
    assert ns(work) == pytest.approx(whole, rel=0.01)
    assert memory.bytes_per_s == achieved(device("h100")).memory_bytes_per_s


@given(st.integers(1, 1 << 32), st.integers(1, 1 << 32))
def test_more_bytes_never_take_less_time_nor_any_less_than_the_least(one: int, other: int) -> None:
    less, more = (ns(pointwise(Elements(n), BF16)) for n in sorted((one, other)))
    assert more >= less * (1 - 1e-6)
    assert less >= H100.least_s * 1e9 * (1 - 1e-6)


def test_what_the_cache_holds_takes_less_than_the_memory_would() -> None:
    work = pointwise(Elements(1 << 22), BF16)
    assert ns(work) - H100.least_s * 1e9 < work.size_bytes / H100.reached_bytes_per_s * 1e9 / 2


def test_a_broadcast_or_another_layout_takes_longer_than_the_same_bytes_in_order() -> None:
    count, whole = 1 << 24, 2 << 24
    in_order = ns(pointwise(Elements(count), BF16))
    assert ns(pointwise(Elements(count, 2), BF16, read_bytes=whole + 64)) > 1.5 * in_order
    assert ns(copied(count, BF16)) > 1.5 * in_order
    cast = copied(count, DType.FLOAT32, BF16)
    assert ns(cast) == pytest.approx(ns(pointwise(Elements(count), DType.FLOAT32, out=BF16)))


def test_what_a_mask_of_bytes_chooses_is_no_broadcast() -> None:
    masked = pointwise(Elements(1 << 24, 2), BF16, read_bytes=3 << 24)
    alike = pointwise(Elements(5 << 22, 1), BF16)
    assert masked.size_bytes == alike.size_bytes
    assert ns(masked) == pytest.approx(ns(alike))


def test_a_device_in_the_tables_keeps_their_times_for_the_type_that_they_are_of() -> None:
    works = [pointwise(Elements(4096), DType.FLOAT32), softmax(Rows(64, 64), DType.FLOAT32)]
    alone, call = (forecast(works, T4, timed=timed) for timed in Timed)
    assert (alone.dur_ns == call.dur_ns).all()
    half = forecast([pointwise(Elements(4096), DType.FLOAT16)], T4)
    assert half.dur_ns[0] < 5 * US < call.dur_ns[0]


def test_products_have_the_least_time_in_place_of_a_launch_of_other_hosts() -> None:
    small, large = (matrix(Matrix(1, n, n, n), DType.FLOAT32) for n in (64, 8192))
    alone, call = (on_h100(small, large, timed=timed).dur_ns for timed in Timed)
    assert alone[0] < 15 * US < 40 * US < call[0]
    assert alone[1] == pytest.approx(call[1], rel=0.02)


def test_products_whose_tables_hold_no_launch_are_as_they_are() -> None:
    works = [matrix(Matrix(1, n, n, n), BF16) for n in (64, 8192)]
    assert (on_h100(*works).dur_ns == on_h100(*works, timed=Timed.CALL).dur_ns).all()


BOUND = {Family.POINTWISE, Family.NORM, Family.EMBEDDING, Family.COPY, Family.REDUCTION}


@cache
def kernels(path: Path) -> Kernels:
    graph = build(read_all(sources([path])))
    return Kernels.of(graph, kernel_rows(graph))


@pytest.mark.parametrize(
    ("trace", "name", "factor"),
    [
        ("h100-mi300x/h100_bert-small.json.gz", "h100", 1.1),
        ("h100-mi300x/h100_qwen1.5-0.5b.json.gz", "h100", 1.25),
        ("nccl-metadata/nccl_data.json.gz", "a100-40", 1.1),
        ("dlrm-8xV100", "v100", 1.1),
        ("h100-mi300x/mi300x_bert-small.json.gz", "mi300x", 1.4),  # nothing was taken from these
        ("h100-mi300x/mi300x_qwen1.5-0.5b.json.gz", "mi300x", 1.25),
    ],
)
def test_recorded_kernels_are_forecast_as_long_as_they_took(
    real_traces: Path, trace: str, name: str, factor: float
) -> None:
    recorded = kernels(real_traces / trace)
    asked = [each.work.family in BOUND and each.work.is_known for each in recorded.works]
    mine = np.append(asked, False)[recorded.work]
    told = np.zeros(len(recorded.works) + 1, np.float32)
    works = [each.work for each, wanted in zip(recorded.works, asked) if wanted]
    told[np.flatnonzero(asked)] = forecast(works, sheet_of(device(name))).dur_ns
    found = float((told[recorded.work] * recorded.share)[mine].sum() / recorded.dur_ns[mine].sum())
    assert 1 / factor < found < factor


COUNT = 1 << 28


def test_a_cast_to_a_wider_type_is_each_processor_s_and_a_faster_memory_brings_nothing() -> None:
    wider, narrower = copied(COUNT, BF16, DType.FLOAT32), copied(COUNT, DType.FLOAT32, BF16)
    h200 = sheet_of(device("h200"))
    assert float(forecast([wider], h200).dur_ns[0]) == pytest.approx(ns(wider), rel=0.01)
    assert float(forecast([narrower], h200).dur_ns[0]) < 0.75 * ns(narrower)
    assert ns(wider) > 1.3 * ns(narrower)
    assert ns(wider) == pytest.approx(831e3, rel=0.05), "as an H100 took for the logits' gradient"


def test_an_expanded_tensor_that_is_copied_is_no_cast() -> None:
    stretched = Work(Family.COPY, BF16, Elements(COUNT), 0, 2, 2 * COUNT)
    least = 2 * COUNT / H100.reached_bytes_per_s * 1e9
    assert ns(stretched) == pytest.approx(least, rel=0.05)
