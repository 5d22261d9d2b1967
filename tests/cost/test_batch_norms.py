"""Batch norms of images take what blocks of one channel each can do, and their passes over memory.

The figures were taken from an H100's kernels; an H200's are held back.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from paceline.cluster.files import device
from paceline.cost.forecast import Sheet, Timed, forecast, sheet_of
from paceline.cost.ported import kernel_rows
from paceline.graph import load_graph
from paceline.graph.kinds import DType
from paceline.graph.work import Family, Rows, Way, Work, batch_norm, norm

KEPT = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu"
H100, H200, MI300X = (sheet_of(device(name)) for name in ("h100", "h200", "mi300x"))
BATCH = 128
FIRST = Rows(64, BATCH * 112 * 112)  # of ResNet-50


def ns(work: Work, sheet: Sheet = H200, timed: Timed = Timed.KERNEL) -> float:
    return float(forecast([work], sheet, timed=timed).dur_ns[0])


@cache
def told_and_took(name: str, job: str) -> tuple[float, float]:
    """Sums over the batch norms of a recorded step, forecast and as they ran."""
    graph, sheet = load_graph(KEPT / name / job), sheet_of(device(name))
    works = [each.work for each in graph.works]
    rows = kernel_rows(graph)
    mine = np.array([*(work.family is Family.BATCH_NORM for work in works), False])
    rows = rows[mine[graph.ops.work[rows]]]
    found = forecast([works[at] for at in graph.ops.work[rows]], sheet).dur_ns
    whole = np.array([works[at].size_bytes for at in graph.ops.work[rows]])
    told = (found * graph.ops.size_bytes[rows] / whole).sum()
    return float(told), float(graph.ops.dur_ns[rows].sum())


@pytest.mark.parametrize("job", ["resnet50.float32.eager", "resnet50.bf16.eager"])
def test_those_of_an_h200_are_forecast_from_an_h100_s(job: str) -> None:
    told, took = told_and_took("h200", job)
    assert told == pytest.approx(took, rel=0.05)


def test_few_channels_leave_most_of_the_device_idle() -> None:
    same = FIRST.rows * FIRST.columns
    many = Rows(1024, same // 1024)
    for way in (Way.FORWARD, Way.BACKWARD):
        few_ns, many_ns = (ns(batch_norm(dims, DType.FLOAT32, way)) for dims in (FIRST, many))
        assert few_ns > 2 * many_ns


def test_half_the_bytes_make_none_of_them_shorter_while_channels_lie_first() -> None:
    for way in (Way.FORWARD, Way.BACKWARD):
        for rows, side in ((64, 112), (256, 56), (512, 28), (1024, 14)):
            dims = Rows(rows, BATCH * side * side)
            wide, narrow = (batch_norm(dims, one, way) for one in (DType.FLOAT32, DType.BFLOAT16))
            assert ns(narrow) > 0.8 * ns(wide)


@pytest.mark.parametrize(("way", "passes"), [(Way.FORWARD, 3), (Way.BACKWARD, 5)])
def test_other_makers_libraries_take_their_passes_over_memory(way: Way, passes: int) -> None:
    work = batch_norm(FIRST, DType.BFLOAT16, way)
    moved = passes * 2 * FIRST.rows * FIRST.columns
    least = moved / MI300X.reached_bytes_per_s * 1e9
    assert least < ns(work, MI300X) < 1.05 * least


def test_no_table_of_calls_holds_them_so_a_call_takes_as_long_as_its_kernels() -> None:
    work = batch_norm(FIRST, DType.FLOAT32)
    assert ns(work, timed=Timed.CALL) == ns(work)


def test_norms_over_features_stay_as_they_were() -> None:
    rows = Rows(8192, 1024)
    wide, narrow = (norm(rows, one) for one in (DType.FLOAT32, DType.BFLOAT16))
    assert ns(narrow) < 0.6 * ns(wide)
