"""Graphs as earlier versions saved them."""

from pathlib import Path

from paceline.graph import Axis, Basis, Parameter, check, load_graph


def test_a_graph_of_the_first_schema_is_read_with_its_notes_as_facts() -> None:
    """Written by the version before facts were typed: two ranks, one all-reduce."""
    graph = check(load_graph(Path(__file__).with_name("first_schema")))
    assert graph.facts.parameters == (Parameter("w", 64),)
    assert graph.facts.buckets == (("w",),)
    assert (graph.world_size, graph.facts.plain_step_ns) == (2, 1234)
    assert [group.axis for group in graph.groups] == [Axis.DATA, Axis.NONE]
    assert dict(graph.meta) == {"source": "drawn"}
    assert {int(basis) for basis in graph.ops.basis} == {Basis.RECORDED}
