"""Operators in other variants: measured ratios go before typical ones, and it is said which."""

from dataclasses import replace

import pytest

from paceline.cost.operators import OperatorClass, operator_class
from paceline.cost.variants import in_variant, unmeasured
from paceline.errors import PacelineError
from paceline.graph import Basis, DType, Graph, GraphBuilder, LaneKind, OpKind, Phase
from paceline.graph.variants import Ratio, Variant
from paceline.strategies import parse

HALF = Ratio("aten::addmm", Variant.BF16, 0.5, 0.4, 0.6)


def job(*names: str, kind: LaneKind = LaneKind.THREAD) -> Graph:
    """Ops of 100 ns in a forward pass."""
    b = GraphBuilder()
    lane = b.lane(0, "main", kind=kind)
    for name in names:
        b.op(name, lane, 100, phase=Phase.FORWARD)
    return b.build()


def measured(graph: Graph, *ratios: Ratio) -> Graph:
    return replace(graph, facts=replace(graph.facts, ratios=ratios))


def test_an_operator_takes_its_measured_share_and_rests_on_it() -> None:
    graph = measured(job("aten::addmm", "aten::relu", "between ops"), HALF)
    made = parse("autocast").transform(graph).ops
    assert made.dur_ns.tolist() == [50, 100, 100]
    assert made.basis.tolist() == [Basis.MEASURED, Basis.RECORDED, Basis.RECORDED]


def test_an_operator_that_was_not_measured_stays_as_it_is_on_a_processor_and_says_so() -> None:
    graph = job("aten::addmm", "aten::gelu")
    made = parse("autocast").transform(graph).ops
    assert made.dur_ns.tolist() == [100, 100]
    assert set(made.basis.tolist()) == {Basis.DATASHEET}
    told = " ".join(parse("autocast").rests_on(graph))
    assert "bf16: not measured here, so left as recorded: aten::addmm and 1 more; run" in told
    assert "paceline measure --for RUN" in told


def test_typical_ratios_are_said_of_those_alone_that_have_one() -> None:
    kernels = job("ampere_sgemm_128x64", "vectorized_elementwise_kernel", kind=LaneKind.STREAM)
    (told,) = parse("autocast").rests_on(kernels)
    assert "bf16: typical ratios, not measured here, for ampere_sgemm_128x64 and 1 more" in told


def test_nothing_is_said_of_typical_ratios_where_all_were_measured() -> None:
    assert not list(parse("autocast").rests_on(measured(job("aten::addmm"), HALF)))


def test_kernels_take_daydreams_shares() -> None:
    graph = job("ampere_sgemm_128x64", "vectorized_elementwise_kernel", kind=LaneKind.STREAM)
    made = parse("autocast").transform(graph).ops
    assert made.dur_ns.tolist() == [33, 50]


def in_types(*kernels: tuple[str, DType, int]) -> Graph:
    b = GraphBuilder()
    lane = b.lane(0, "stream", kind=LaneKind.STREAM)
    for name, dtype, dur_ns in kernels:
        b.op(name, lane, dur_ns, phase=Phase.FORWARD, dtype=dtype)
    return b.build()


def test_kernels_in_16_bits_stay_as_they_are_under_autocast_which_says_so() -> None:
    graph = in_types(
        ("sgemm", DType.FLOAT32, 900), ("gemm", DType.BFLOAT16, 600), ("norm", DType.FLOAT16, 50)
    )
    made = parse("autocast").transform(graph).ops
    assert made.dur_ns.tolist() == [300, 600, 50]
    told = "\n".join(parse("autocast").rests_on(graph))
    assert "2 ops of 0.00065 ms run in 16 bits already" in told


def test_autocast_is_refused_where_the_products_are_in_16_bits_already() -> None:
    graph = in_types(
        ("gemm", DType.BFLOAT16, 99_000), ("sgemm", DType.FLOAT32, 100), ("add", DType.FLOAT32, 9)
    )
    with pytest.raises(PacelineError, match=r"run in bfloat16 already \(99.9% of their time\)"):
        parse("autocast").transform(graph)


def test_a_ratio_of_another_variant_is_not_taken() -> None:
    graph = measured(job("aten::addmm"), replace(HALF, variant=Variant.COMPILED))
    assert in_variant(graph, graph.ops.dur_ns > 0, Variant.BF16).ops.dur_ns.tolist() == [100]


def test_waits_do_not_shrink() -> None:
    b = GraphBuilder()
    b.op("aten::addmm", b.lane(), 100, kind=OpKind.WAIT, phase=Phase.FORWARD)
    graph = measured(b.build(), HALF)
    assert in_variant(graph, graph.ops.dur_ns > 0, Variant.BF16).ops.dur_ns.tolist() == [100]


def test_what_was_not_measured_is_named_longest_first() -> None:
    graph = job("aten::add", "aten::gelu", "aten::gelu", "aten::addmm")
    graph = measured(graph, HALF)
    names = unmeasured(graph, graph.ops.dur_ns > 0, Variant.BF16)
    assert names == ("aten::gelu", "aten::add")


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        ("autocast", "no product of matrices"),
        ("channels_last", "no convolution"),
        ("batchnorm_relu", "no ReLU behind a batch norm"),
        ("fused_optimizer", "does not say which optimizer"),
        ("fused_step", "one worker exchanges nothing"),
        ("data_workers", "no op of this job prepares a batch"),
    ],
)
def test_a_strategy_that_does_not_fit_says_why(strategy: str, reason: str) -> None:
    with pytest.raises(PacelineError, match=reason):
        parse(strategy).transform(job("aten::relu"))
    assert reason in str(parse(strategy).refusal(job("aten::relu")))


def test_only_relus_behind_a_batch_norm_write_over_what_they_read() -> None:
    ratio = Ratio("aten::clamp_min", Variant.IN_PLACE, 0.25, 0.2, 0.3)
    names = ("aten::native_batch_norm", "aten::relu", "aten::clamp_min", "aten::clamp_min")
    graph = measured(job(*names, "aten::add", "aten::clamp_min"), ratio)
    made = parse("batchnorm_relu").transform(graph).ops
    assert made.dur_ns.tolist() == [100, 100, 25, 25, 100, 100]


def test_kernels_and_operators_are_told_apart_by_their_names() -> None:
    assert operator_class("aten::mm") is OperatorClass.PRODUCT
    assert operator_class("mm") is OperatorClass.PRODUCT
    assert operator_class("c10d::norm") is OperatorClass.OTHER
    assert operator_class("cudnn::bn_fw_tr_1C11") is OperatorClass.OTHER
    assert operator_class("bn_fw_tr_1C11_kernel") is OperatorClass.NORMALISATION
