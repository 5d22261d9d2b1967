"""Recorded routing: the fullest rank decides rows, bytes and memory; files that are refused."""

import json
from pathlib import Path

import pytest

from paceline.errors import PacelineError
from paceline.graph import DType, GraphBuilder, Phase
from paceline.graph.work import Matrix, Recorded, matrix
from paceline.imagine.decoder import (
    AxisCollective,
    DecoderJob,
    Operators,
    Product,
    Recipe,
    decoder,
    from_document,
    fullest,
    read_routing,
    routed,
)
from paceline.imagine.transformer import Degrees
from paceline.place.hybrid.recorded import routing_of

MODEL = from_document({
    "layers": 2, "hidden": 64, "vocab": 256, "sequence": 256, "attention": {"kind": "grouped",
    "heads": 4}, "feed_forward": {"kind": "gated"}, "experts": {"count": 4, "top_k": 2, "ffn": 32},
})  # fmt: skip
SKEWED = routed(MODEL, [[5, 1, 1, 1]])


def job(model: object, expert: int = 2) -> DecoderJob:
    return DecoderJob(model, Degrees(data=2, expert=expert), Recipe(2))  # type: ignore[arg-type]


def test_even_counts_change_nothing() -> None:
    even = routed(MODEL, [[3, 3, 3, 3]] * 2)
    ours, plain = (Operators(job(model)).forward(routed=True) for model in (even, MODEL))
    assert sum(one.count * one.m for one in ours if isinstance(one, Product)) == sum(
        one.count * one.m for one in plain if isinstance(one, Product)
    )
    assert job(even).routed_rows == job(MODEL).routed_rows


@pytest.mark.parametrize(("ranks", "load"), [(1, 1.0), (2, 1.5), (4, 2.5)])
def test_the_fullest_rank_has_the_rows_of_its_experts(ranks: int, load: float) -> None:
    assert SKEWED.experts is not None
    assert SKEWED.experts.load_on(ranks) == pytest.approx(load)


def test_all_to_alls_and_products_are_those_of_the_fullest_rank() -> None:
    rows = 256 * 2  # a rank's tokens, each to two experts
    listed = Operators(job(SKEWED)).forward(routed=True)
    sent = [one.size_bytes for one in listed if isinstance(one, AxisCollective)]
    assert sent == [1.5 * rows * 64 * 2] * 2
    first = [(one.count, one.m) for one in listed if isinstance(one, Product) and "in" in one.name]
    assert first == [(1, 5 * 2 * rows // 8), (1, 2 * rows // 8)]  # the slowest expert first


def test_a_skewed_load_takes_memory() -> None:
    assert fullest(job(SKEWED)).total > fullest(job(MODEL)).total


def test_layers_have_fullest_ranks_of_their_own() -> None:
    turned = routed(MODEL, [[5, 1, 1, 1], [1, 1, 1, 5]])
    assert turned.experts is not None
    assert turned.experts.load_on(2) == pytest.approx(1.5)


def test_counts_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "routing.json"
    path.write_text(json.dumps([1, 2, 3, 4]))
    assert read_routing(path) == [[1, 2, 3, 4]]


@pytest.mark.parametrize("text", ["{}", "[]", "[1, -2]", "[[1], []]", '["a"]', "no JSON"])
def test_what_is_no_counts_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "routing.json"
    path.write_text(text)
    with pytest.raises(PacelineError, match="is not"):
        read_routing(path)


def test_counts_for_other_experts_are_refused() -> None:
    with pytest.raises(PacelineError, match="8 rows on 2 experts; model has 4"):
        routed(MODEL, [[4, 4]])
    with pytest.raises(PacelineError, match="no experts"):
        routed(decoder("llama3-8b"), [[1]])


def test_a_recording_tells_the_rows_of_each_expert() -> None:
    made = GraphBuilder()
    for rank in (0, 1):
        lane = made.lane(rank, "thread")
        for expert, rows in ((0, 6), (2, 2 + rank)):
            for n, k in ((32, 64), (64, 32)):
                work = Recorded("aten::mm", matrix(Matrix(1, rows, n, k), DType.FLOAT32))
                made.op("mm", lane, 10, phase=Phase.FORWARD, layer=f"layers.0.experts.{expert}.up",
                        work=work, flops=work.work.flops)  # fmt: skip
    assert routing_of(made.build()) == [[12, 0, 5]]


def test_a_recording_without_experts_is_refused() -> None:
    made = GraphBuilder()
    made.op("mm", made.lane(name="thread"), 10, phase=Phase.FORWARD, layer="head")
    with pytest.raises(PacelineError, match="no products of modules"):
        routing_of(made.build())
