"""Restructured norms in a graph: which ops change, by how much, and what is kept."""

from dataclasses import replace

import pytest

from paceline.graph import Graph, GraphBuilder, LaneKind, MemoryCategory, Phase, check
from paceline.graph.variants import Ratio, Variant
from paceline.strategies import StrategyError, kind_of, parse
from paceline.strategies.strategy import exclude_each_other

IMAGE = 1000
FORWARD = (("a", "mkldnn_convolution"), ("b", "native_batch_norm"), ("", "clamp_min"),
           ("c", "mkldnn_convolution"), ("d", "native_batch_norm"), ("", "add"),
           ("", "clamp_min"))  # fmt: skip
BACKWARD = (("", "threshold_backward"), ("d", "native_batch_norm_backward"),
            ("c", "convolution_backward"), ("", "threshold_backward"),
            ("b", "native_batch_norm_backward"))  # fmt: skip


@pytest.fixture
def job() -> Graph:
    return drawn()


def drawn(kind: LaneKind = LaneKind.THREAD) -> Graph:
    """A pair, and a norm whose result is added to something before a ReLU cuts it."""
    b = GraphBuilder()
    lane = b.lane(0, "main", kind=kind)
    for layer, name in FORWARD:
        op = b.op(f"aten::{name}", lane, 100, phase=Phase.FORWARD, layer=layer)
        if name == "clamp_min":
            b.allocate(op, IMAGE, MemoryCategory.ACTIVATIONS)
    for layer, name in BACKWARD:
        took = 50 if name == "threshold_backward" else 100
        op = b.op(f"aten::{name}", lane, took, phase=Phase.BACKWARD, layer=layer)
        if name == "threshold_backward":
            b.allocate(op, -IMAGE, MemoryCategory.ACTIVATIONS)
    return check(b.build())


def durations(graph: Graph) -> list[int]:
    return graph.ops.dur_ns.tolist()


def curve(graph: Graph, category: MemoryCategory) -> dict[int, int]:
    """Bytes taken and given back, by op."""
    memory, found = graph.memory, dict[int, int]()
    rows = memory.category == category
    for op, delta in zip(memory.op[rows].tolist(), memory.delta_bytes[rows].tolist()):
        found[op] = found.get(op, 0) + delta
    return {op: delta for op, delta in found.items() if delta}


def test_by_passes_the_relu_goes_both_ways_and_a_norm_takes_eight_ninths(job: Graph) -> None:
    made = check(parse("restructured_norms(recomputed=False)").transform(job))
    assert durations(made) == [100, 89, 0, 100, 100, 100, 100, 50, 100, 100, 0, 89]
    (said,) = parse("restructured_norms").rests_on(job)
    assert "paceline measure --for RUN" in said


def test_making_a_result_again_takes_as_long_as_the_relu_took(job: Graph) -> None:
    made = parse("restructured_norms").transform(job)
    assert durations(made) == [100, 89, 0, 100, 100, 100, 100, 50, 100, 100, 100, 89]


def test_measured_ratios_are_taken_where_there_are_some(job: Graph) -> None:
    ratios = tuple(
        Ratio(f"aten::{name}", Variant.RESTRUCTURED, value, value, value)
        for name, value in (("native_batch_norm", 0.25), ("native_batch_norm_backward", 1.5))
    )
    told = replace(job, facts=replace(job.facts, ratios=ratios))
    change = parse("restructured_norms(recomputed=False)")
    assert durations(change.transform(told))[1::10] == [25, 150]
    assert not list(change.rests_on(told))


def test_the_result_is_there_while_the_next_layer_works_and_not_in_between(job: Graph) -> None:
    made = parse("restructured_norms").transform(job)
    assert curve(made, MemoryCategory.ACTIVATIONS) == {6: IMAGE, 7: -IMAGE}
    assert curve(made, MemoryCategory.TEMPORARY) == {2: IMAGE, 3: -IMAGE}
    rows = made.memory.op == 9  # made again and given up within the convolution's backward pass
    assert made.memory.delta_bytes[rows].tolist() == [IMAGE, -IMAGE]
    assert made.memory.at_end[rows].tolist() == [False, True]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(StrategyError, match="by a kernel for processors"):
        parse("restructured_norms").transform(drawn(LaneKind.STREAM))
    one = kind_of("restructured_norms")
    for name in ("batchnorm_relu", "compiled", "checkpoint", "compress_activations"):
        assert exclude_each_other(one, kind_of(name))
