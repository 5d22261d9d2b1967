"""Images whose channels lie first are put in order for a GPU's matrix units, and back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paceline.cluster.files import device
from paceline.cost.forecast import forecast, sheet_of
from paceline.cost.forecast.channels import ordered_s, with_channels_last
from paceline.cost.forecast.sampled_works import works_in
from paceline.cost.forecast.sheet import Sheet
from paceline.cost.forecast.tables import samples
from paceline.graph.kinds import DType
from paceline.graph.work import Convolution, Elements, Way, Work, convolution, pointwise

KEPT = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu"
H100, H200, MI300X = (sheet_of(device(name)) for name in ("h100", "h200", "mi300x"))
SQUARE = Convolution(128, 64, 64, 3136, 3136, 9, 1)
POINT = replace(SQUARE, kernel=1)
TF32, BF16 = DType.TFLOAT32, DType.BFLOAT16


def of(dims: Convolution, dtype: DType = BF16, way: Way = Way.FORWARD) -> Work:
    return convolution(dims, dtype, way)


def test_data_and_result_are_read_and_written_once_more() -> None:
    moved = 2 * 4 * 128 * (64 + 64) * 3136
    assert ordered_s(of(SQUARE, TF32), H100) == pytest.approx(
        moved / H100.reached_bytes_per_s, rel=0.05
    )
    both = ordered_s(of(SQUARE, TF32, Way.BACKWARD), H100)
    assert both == pytest.approx(1.5 * moved / H100.reached_bytes_per_s, rel=0.05)


def test_in_two_bytes_the_processors_decide_and_a_faster_memory_brings_nothing() -> None:
    assert ordered_s(of(SQUARE), H200) == pytest.approx(ordered_s(of(SQUARE), H100))
    assert ordered_s(of(SQUARE, TF32), H200) < 0.8 * ordered_s(of(SQUARE, TF32), H100)


@pytest.mark.parametrize(
    ("work", "sheet"),
    [
        (of(SQUARE, DType.FLOAT32), H100),
        (of(SQUARE), MI300X),
        (of(POINT), H100),
        (of(replace(SQUARE, groups=64)), H100),
        (pointwise(Elements(1 << 20), BF16), H100),
    ],
    ids=["off matrix units", "another maker", "a product", "each channel alone", "no convolution"],
)
def test_what_needs_no_other_order_is_left_alone(work: Work, sheet: Sheet) -> None:
    assert ordered_s(work, sheet) == 0


def test_a_product_whose_rows_begin_between_16_bytes_is_ordered() -> None:
    odd = replace(POINT, size_in=196, size_out=196)
    assert ordered_s(of(odd), H100) > 0
    assert ordered_s(of(odd, TF32), H100) == 0


def test_with_channels_last_nothing_is_ordered() -> None:
    works = [of(SQUARE), of(POINT)]
    first = forecast(works, H100).dur_ns.astype(np.float64)
    last = with_channels_last(works, first, H100)
    assert last[0] == pytest.approx(first[0] - ordered_s(works[0], H100) * 1e9)
    assert last[1] == first[1]


def test_convolutions_measured_on_an_h200_are_nearer_by_it() -> None:
    """Its rate was taken from an H100's recording; the first, of 3 channels, is padded to 4 or 8
    and runs in a kernel of its own."""
    ((sample,),) = (
        taken for key, taken in samples(KEPT / "h200" / "kernels").items() if "convolution" in key
    )
    works = works_in("convolution", sample)[1:]
    told = forecast(works, H200).dur_ns
    took = sample.seconds[1:] * 1e9
    without = told - np.array([ordered_s(work, H200) for work in works]) * 1e9
    assert np.abs(told / took - 1).mean() < 0.2
    assert np.abs(without / took - 1).mean() > 0.6
