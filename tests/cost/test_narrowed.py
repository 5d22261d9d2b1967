"""A GPU's kernels under autocast: by what they work on, on the GPU that ran them."""

import pytest

from paceline.cluster.files import device
from paceline.cost import Basis
from paceline.cost.forecast import forecast, sheet_of
from paceline.graph import DType, Facts, GraphBuilder, LaneKind, Phase
from paceline.graph.facts import RecordedGpu
from paceline.graph.work import (
    Attention,
    Convolution,
    Elements,
    Matrix,
    Recorded,
    Rows,
    Way,
    Work,
    attention,
    batch_norm,
    convolution,
    matrix,
    norm,
    pointwise,
)
from paceline.strategies import parse

LARGE = matrix(Matrix(1, 8192, 4096, 4096), DType.FLOAT32)
SMALL = matrix(Matrix(1, 16, 64, 64), DType.FLOAT32)
IMAGES = convolution(Convolution(32, 256, 256, 784, 784, 9, 1, 1), DType.TFLOAT32)
CORE = attention(Attention(8, 16, 16, 1024, 1024, 64, 64), DType.FLOAT32)
WIDE_AND_NARROW = (DType.FLOAT32, DType.BFLOAT16)
ROWS = norm(Rows(8192, 1024), DType.FLOAT32)
IMAGES_NORMED = batch_norm(Rows(64, 128 * 56 * 56), DType.FLOAT32, Way.BACKWARD)
ADDED = pointwise(Elements(1 << 20, 2), DType.FLOAT32)


def shares(*calls: tuple[str, Work], gpu: str = "NVIDIA H100 80GB HBM3") -> list[float]:
    """What each call takes, of what it took."""
    b = GraphBuilder(facts=Facts(world_size=1, gpus=(RecordedGpu(gpu),)))
    lane = b.lane(0, "stream", kind=LaneKind.STREAM)
    for name, work in (("aten::mm", LARGE), *calls):
        b.op("kernel", lane, 1_000_000, phase=Phase.FORWARD, dtype=work.dtype, flops=work.flops,
             size_bytes=work.size_bytes, work=Recorded(name, work))  # fmt: skip
    made = parse("autocast").transform(b.build())
    assert set(made.ops.basis) == {Basis.SCALED}
    return (made.ops.dur_ns[1:] / 1e6).tolist()


def test_products_take_what_forecasts_of_both_types_say_on_the_device_that_ran_them() -> None:
    for gpu, name in (("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA A100-SXM4-80GB", "a100-80")):
        sheet = sheet_of(device(name))
        works = [matrix(Matrix(1, 8192, 4096, 4096), each) for each in WIDE_AND_NARROW]
        wide, narrow = forecast(works, sheet).dur_ns
        assert shares(("aten::mm", LARGE), gpu=gpu) == [pytest.approx(narrow / wide, rel=0.01)]


def test_a_large_product_gains_most() -> None:
    large, small = shares(("aten::mm", LARGE), ("aten::mm", SMALL))
    assert large < 0.12, "the data sheet's rates differ by fifteen times"
    assert small > 2 * large


def test_what_nothing_taught_goes_by_the_rates_of_both_types() -> None:
    assert shares(("aten::attention", CORE))[0] < 0.2


def test_convolutions_run_at_twice_the_rate_of_tf32() -> None:
    assert shares(("aten::cudnn_convolution", IMAGES)) == [0.5]


def test_torch_keeps_norms_over_rows_and_losses_wide_and_halves_all_else() -> None:
    assert shares(
        ("aten::native_layer_norm_backward", ROWS),
        ("aten::_log_softmax", ROWS),
        ("aten::add", ADDED),
    ) == [1.0, 1.0, 0.5]


def test_batch_norms_of_images_become_longer() -> None:
    (share,) = shares(("aten::cudnn_batch_norm_backward", IMAGES_NORMED))
    assert 1 < share < 2
