"""A GPU's job with channels last: what brings them there goes, batch norms take their passes."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from paceline.cost import CostError
from paceline.cost.operators import OperatorClass, of_class, operator_class
from paceline.graph import Graph, GraphBuilder, LaneKind, Phase, load_graph
from paceline.graph.facts import Facts, RecordedGpu
from paceline.graph.kinds import DType
from paceline.graph.variants import Variant
from paceline.graph.work import (
    Convolution,
    Recorded,
    Rows,
    Work,
    batch_norm,
    convolution,
    norm,
)
from paceline.predict import predict
from paceline.strategies import parse

KEPT = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu" / "h200"
LAYOUT = "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>(int)"
IMAGES = convolution(Convolution(128, 64, 64, 3136, 3136, 9, 1), DType.TFLOAT32)
NORMED = batch_norm(Rows(64, 128 * 3136), DType.FLOAT32)
ROWS = norm(Rows(8192, 1024), DType.FLOAT32)


def job(*kernels: tuple[str, Work]) -> Graph:
    """Each takes a millisecond on an H200."""
    b = GraphBuilder(facts=Facts(world_size=1, gpus=(RecordedGpu("NVIDIA H200"),)))
    lane = b.lane(0, "stream", kind=LaneKind.STREAM)
    for name, work in kernels:
        b.op(name, lane, 1_000_000, phase=Phase.FORWARD, work=Recorded("", work), dtype=work.dtype)
    return b.build()


def last(*kernels: tuple[str, Work]) -> list[float]:
    made = parse("channels_last").transform(job(*kernels))
    return [dur / 1e6 for dur in made.ops.dur_ns.tolist()]


def test_kernels_that_move_channels_go_and_norms_of_images_shrink() -> None:
    found = last((LAYOUT, IMAGES), ("fprop", IMAGES), ("bn_fw", NORMED), ("layer_norm", ROWS))
    assert found[0] == 0
    assert found[1] == found[3] == 1
    assert 0.2 < found[2] < 0.6, "64 blocks leave half of the device idle"


def test_what_moves_channels_is_told_by_its_name_wherever_it_lies() -> None:
    assert operator_class(LAYOUT) is OperatorClass.LAYOUT
    assert operator_class(LAYOUT.replace("nchwToNhwc", "nhwcToNchw")) is OperatorClass.LAYOUT
    assert operator_class("sm90_xmma_fprop_implicit_gemm_nhwckrsc_nhwc") is not OperatorClass.LAYOUT


def test_where_nothing_moves_channels_what_they_bring_is_not_known() -> None:
    with pytest.raises(CostError, match="what channels last would bring is not known"):
        last(("fprop", IMAGES), ("bn_fw", NORMED))
    with pytest.raises(CostError, match="no convolution is seen"):
        last(("layer_norm", ROWS))


def test_with_autocast_either_order_gives_the_same() -> None:
    graph = job((LAYOUT, IMAGES), ("bn_fw", NORMED), ("layer_norm", ROWS))
    changes = [parse("channels_last"), parse("autocast")]
    there, back = (
        second.transform(first.transform(graph)) for first, second in (changes, changes[::-1])
    )
    np.testing.assert_allclose(there.ops.dur_ns, back.ops.dur_ns, atol=2)
    assert set(there.facts.variants) == {Variant.BF16, Variant.CHANNELS_LAST}
    (alone,) = (changes[0].transform(graph).ops.dur_ns[1:2]).tolist()
    assert there.ops.dur_ns[1] == pytest.approx(alone / 2, rel=0.01), "half the bytes"


@cache
def recorded(job: str) -> Graph:
    return load_graph(KEPT / f"{job}.eager")


def test_a_recorded_job_loses_what_moved_its_channels_and_says_so() -> None:
    graph = recorded("resnet50.float32")
    found = predict(graph, ["channels_last"])
    changed = found.timeline.graph
    layouts = of_class(changed, OperatorClass.LAYOUT)
    assert layouts.sum() > 600
    assert (changed.ops.dur_ns[layouts] == 0).all()
    assert any("kernels that change the order of channels go" in line for line in found.rests_on)
    assert found.step_ns < 0.8 * predict(graph).step_ns


def test_a_recorded_job_without_images_is_refused() -> None:
    assert "no convolution is seen" in str(
        parse("channels_last").refusal(recorded("decoder.float32"))
    )
