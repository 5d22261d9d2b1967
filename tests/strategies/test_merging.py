"""Which products of a recorded job are taken for one, and what they take then."""

from dataclasses import replace

from paceline.graph import Facts, Graph, GraphBuilder, Parameter, Phase, Role, check
from paceline.graph.variants import Ratio, Variant
from paceline.strategies import parse
from paceline.strategies.merging import merged_layers

LAYERS = {"a.query": 12, "a.key": 12, "a.value": 12, "a.out": 8, "mlp.0": 12, "mlp.1": 12}


def job() -> Graph:
    """An attention's layers, and two of a sequence with nothing between them."""
    weights = tuple(
        Parameter(f"{name}.weight", 4 * 12 * size, (12, size), name, Role.LINEAR_WEIGHT)
        for name, size in LAYERS.items()
    )
    b = GraphBuilder(facts=Facts(parameters=weights))
    lane = b.lane()
    for name in LAYERS:
        b.op("aten::linear", lane, 1, phase=Phase.FORWARD, layer=name)
        b.op("aten::addmm", lane, 100, phase=Phase.FORWARD, layer=name)
        b.op("aten::view", lane, 1, phase=Phase.FORWARD, layer="a")
    for name in reversed(LAYERS):
        b.op("aten::mm", lane, 200, phase=Phase.BACKWARD, layer=name)
    return check(b.build())


def test_neighbours_of_one_parent_with_inputs_of_one_size_are_one() -> None:
    assert merged_layers(job()) == [("a.query", "a.key", "a.value")]


def test_their_products_take_the_measured_share_both_ways() -> None:
    ratios = tuple(
        Ratio(f"aten::{name}", Variant.MERGED, value, value, value)
        for name, value in (("addmm", 0.5), ("mm", 0.75))
    )
    told = replace(job(), facts=replace(job().facts, ratios=ratios))
    made = parse("substitute(rules='merge_products')").transform(told)
    took = [op.dur_ns for op in made if op.name in ("aten::addmm", "aten::mm")]
    assert took == [50] * 3 + [100] * 3 + [200] * 3 + [150] * 3


def test_unmeasured_they_take_as_long_and_it_is_said() -> None:
    change = parse("substitute(rules='merge_products')")
    assert change.transform(job()).ops.dur_ns.tolist() == job().ops.dur_ns.tolist()
    (said,) = change.rests_on(job())
    assert "merged: not measured here, so left as recorded: " in said
    assert [str(one) for one in type(change).choices(job())] == [str(change)]
