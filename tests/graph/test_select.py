"""Selections: text in, op ids out."""

import pytest

from paceline.errors import GraphError
from paceline.graph import scaling, select
from paceline.graph.synthetic import Ring, ring

GRAPH = ring(Ring(ranks=3, layers=6, tensors=2))  # per rank 12 + 2 * (2 + 8) = 32 ops


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("", 96),
        ("all", 96),
        ("kind=transfer", 24),  # 3 ranks, 2 tensors, 4 sends
        ("kind=transfer|copy", 48),
        ("kind=transfer,rank=0", 8),
        ("rank=0|2", 64),
        ("rank=1-2", 64),
        ("rank!=1", 64),
        ("phase=backward,layer=layer 3", 3),
        ("layer~layer [0-1]$,phase=forward", 6),
        ("tensor=tensor 1,lane=link out", 12),
        ("lane_kind=link_in", 24),
        ("size_bytes>0,kind!=compute", 48),
        ("dur_ns<1", 0),
        ("name=update", 6),
        ("group=ring,collective=all_reduce", 48),
    ],
)
def test_selections_choose_ops(expression: str, count: int) -> None:
    assert len(select(GRAPH, expression)) == count


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("kind=speed", "'speed' is no OpKind; known are compute, host"),
        ("colour=red", "fields are kind, phase"),
        ("kind", "is not FIELD=VALUE"),
        ("name~(", "not a regular expression"),
        ("rank=x", "'x' is not a whole number for rank"),
        ("rank~1", "~ needs a text field"),
        ("name<3", "not a whole number|not a number"),
    ],
)
def test_wrong_selections_say_what_is_allowed(expression: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        select(GRAPH, expression)


def test_a_scaling_is_a_selection_and_a_factor() -> None:
    assert scaling("kind=transfer,name~a:b:0.5") == ("kind=transfer,name~a:b", 0.5)
    for wrong in ("kind=transfer", "kind=transfer:fast", "kind=transfer:-1", "all:nan"):
        with pytest.raises(GraphError, match="not SELECTION:FACTOR"):
            scaling(wrong)
