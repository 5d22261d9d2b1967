"""Linear layers in 8 bits: what forecasts of both types say, casts included."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster.files import device
from paceline.cost import Basis
from paceline.cost.forecast import forecast, sheet_of, shipped
from paceline.graph import UNPRICED, DType, Facts, Graph, GraphBuilder, LaneKind, Phase
from paceline.graph.facts import RecordedGpu
from paceline.graph.work import Attention, Matrix, Recorded, Work, attention, matrix
from paceline.predict import Question, predict
from paceline.strategies import StrategyError, parse

LARGE = matrix(Matrix(1, 8192, 8192, 8192), DType.BFLOAT16)
SMALL = matrix(Matrix(1, 16, 1024, 1024), DType.BFLOAT16)
UNEVEN = matrix(Matrix(1, 8192, 8190, 8192), DType.BFLOAT16)
SEVERAL = matrix(Matrix(16, 512, 512, 64), DType.BFLOAT16)
FULL = matrix(Matrix(1, 8192, 8192, 8192), DType.FLOAT32)
CORE = attention(Attention(8, 16, 16, 2048, 2048, 64, 64), DType.BFLOAT16)


def kernels(*works: Work, dur_ns: int = 1_000_000, gpu: str = "h100") -> Graph:
    b = GraphBuilder(facts=Facts(world_size=1, gpus=(RecordedGpu(gpu),)))
    lane = b.lane(0, "stream", kind=LaneKind.STREAM)
    for work in works:
        b.op("kernel", lane, dur_ns, phase=Phase.FORWARD, dtype=work.dtype, flops=work.flops,
             size_bytes=work.size_bytes, work=Recorded("aten::any", work))  # fmt: skip
    return b.build()


def took(graph: Graph, change: str = "fp8") -> list[float]:
    return (parse(change).transform(graph).ops.dur_ns / 1e6).tolist()


def test_a_large_product_takes_little_more_than_half_its_time() -> None:
    casts, fused = took(kernels(LARGE))[0], took(kernels(LARGE), "fp8(fused=True)")[0]
    assert 0.45 < fused < casts < 0.75


def test_a_small_product_loses_more_by_its_casts_than_it_gains() -> None:
    graph = kernels(LARGE, SMALL)
    assert took(graph)[1] > 1
    change = parse("fp8")
    (told,) = change.rests_on(change.transform(graph))
    assert "2 products" in told
    assert "1 of them take longer" in told


def test_what_is_no_linear_layer_in_sixteen_bits_keeps_its_time() -> None:
    made = parse("fp8").transform(kernels(LARGE, UNEVEN, SEVERAL, FULL, CORE))
    assert (made.ops.dur_ns[1:] == 1_000_000).all()
    assert [Basis(b) for b in made.ops.basis] == [Basis.SCALED, *[Basis.RECORDED] * 4]


def test_forecasts_stay_forecasts() -> None:
    graph = kernels(LARGE)
    told = np.full(len(graph), Basis.FORECAST, np.uint8)
    graph = replace(graph, ops=replace(graph.ops, basis=told))
    assert parse("fp8").transform(graph).ops.basis.tolist() == [Basis.FORECAST]


def test_a_device_without_the_type_is_refused_with_those_that_have_it() -> None:
    with pytest.raises(StrategyError, match=r"a100-80 does not multiply in 8 bits.*h100"):
        parse("fp8").transform(kernels(LARGE, gpu="a100-80"))


def test_a_job_carried_to_a_device_that_has_it_takes_it_there() -> None:
    recorded = kernels(LARGE, gpu="a100-80")
    plain, narrow = (
        predict(recorded, ["device(name='h100')", *more]) for more in ([], ["fp8(fused=True)"])
    )
    assert 0.45 < narrow.step_ns / plain.step_ns < 0.65
    assert any(reason.startswith("fp8 on h100: 1 products") for reason in narrow.rests_on)


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (kernels(CORE), "no product of matrices in 16 bits"),
        (kernels(FULL), "no product of matrices in 16 bits"),
        (kernels(LARGE, dur_ns=UNPRICED), "imagined for no device"),
    ],
)
def test_jobs_without_such_products_or_prices_are_refused(graph: Graph, said: str) -> None:
    with pytest.raises(StrategyError, match=said):
        parse("fp8").transform(graph)


def test_eight_bits_are_forecast_as_sixteen_of_half_the_depth_by_the_constants_given() -> None:
    key = "linear.bfloat16.nvidia"
    plain = replace(shipped().learned[key], known=None, net=None, devices=())
    mine = replace(shipped(), learned={**shipped().learned, key: plain}, source="mine")
    half = matrix(Matrix(1, 8192, 8192, 4096), DType.BFLOAT16)
    sheet = sheet_of(device("h100"))
    for constants in (None, mine):
        narrow, wide = forecast([half, LARGE], sheet, constants).dur_ns
        made = predict(kernels(LARGE), ["fp8(fused=True)"], question=Question(constants=constants))
        assert made.step_ns == pytest.approx(1_000_000 * narrow / wide, rel=1e-3)
