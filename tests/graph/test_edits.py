"""Edits: each does what it says, each can be undone, and the old graph never changes."""

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import GraphError
from paceline.graph import (
    UNPRICED,
    DepKind,
    Graph,
    GraphBuilder,
    OpKind,
    Overlay,
    check,
    select,
)
from paceline.graph.synthetic import Ring, jumble, ring


def chain(count: int = 4) -> Graph:
    """Ops of 10, 20, 30, ... ns on one lane, each waiting for the one before."""
    b = GraphBuilder()
    lane, last = b.lane(), None
    for number in range(count):
        after = [] if last is None else [last]
        last = b.op(f"op {number}", lane, 10 * (number + 1), after=after)
    return b.build()


def same(one: Graph, other: Graph) -> bool:
    """Equal in every column."""
    parts = ("ops", "deps", "drains", "memory")
    pairs = [
        (getattr(getattr(one, part), f.name), getattr(getattr(other, part), f.name))
        for part in parts
        for f in fields(getattr(one, part))
    ]
    return all(np.array_equal(a, b) for a, b in pairs) and one.names == other.names


def test_scaling_rounds_to_whole_ns_and_leaves_unpriced_ops_alone() -> None:
    b = GraphBuilder()
    lane = b.lane()
    for dur_ns in (10, 5, UNPRICED):
        b.op("op", lane, dur_ns)
    edits = Overlay(b.build())
    edits.scale([0, 1, 2], 0.25)
    assert edits.freeze().ops.dur_ns.tolist() == [2, 1, UNPRICED]


def test_scaling_shares_all_but_the_durations_with_the_old_graph() -> None:
    graph = ring(Ring(ranks=2))
    edits = Overlay(graph)
    edits.scale(edits.select("kind=transfer"), 2)
    changed = edits.freeze()
    assert changed.deps is graph.deps
    assert changed.ops.lane is graph.ops.lane
    assert changed.ops.dur_ns.sum() > graph.ops.dur_ns.sum()


def test_scaling_scales_samples_too() -> None:
    b = GraphBuilder()
    op = b.op("op", b.lane(), 10)
    b.samples(op, [8, 12])
    edits = Overlay(b.build())
    edits.scale([op], 0.5)
    spread = edits.freeze().spread
    assert spread is not None
    assert spread.samples_ns.tolist() == [4, 6]


def test_samples_follow_their_ops_where_most_ops_are_inserted_or_removed() -> None:
    b = GraphBuilder()
    lane = b.lane()
    for samples in ([8, 12], [3]):
        b.samples(b.op("op", lane, 10), samples)
    edits = Overlay(b.build())
    for _ in range(3):
        edits.insert("more", lane, 5)
    edits.remove([0, 2, 3])
    spread = edits.freeze().spread
    assert spread is not None
    assert spread.ptr.tolist() == [0, 1, 1]  # the second op's, and none of the inserted one
    assert spread.samples_ns.tolist() == [3]


def test_what_is_left_of_many_instances_keeps_its_partners() -> None:
    """Four messages of which the last stays: its number is one that two ops may have."""
    b = GraphBuilder()
    for _ in range(4):
        instance = b.instance()
        for rank, kind in ((0, OpKind.SEND), (1, OpKind.RECV)):
            b.op("message", b.lane(rank), 1, kind=kind, instance=instance)
    overlay = Overlay(b.build())
    overlay.remove(range(6))
    left = overlay.freeze()
    assert left.ops.instance.tolist() == [0, 0]
    assert check(left) is left


def test_removal_hands_dependencies_on() -> None:
    edits = Overlay(chain())
    edits.remove([1, 2])
    changed = edits.freeze()
    assert [op.name for op in changed] == ["op 0", "op 3"]
    assert changed[1].deps == (0,)
    assert edits.new_ids().tolist() == [0, -1, -1, 1]


def test_an_inserted_op_stands_where_it_was_put() -> None:
    edits = Overlay(chain())
    new = edits.insert("new", 0, 7, after=[1], before=[2], place_after=1, size_bytes=64)
    edits.scale([new], 3)
    changed = check(edits.freeze())
    at = int(edits.new_ids()[new])
    assert (at, changed[at].name, changed[at].dur_ns, changed[at].size_bytes) == (2, "new", 21, 64)
    assert changed[at].deps == (1,)
    assert changed[3].deps == (1, 2)


def test_links_and_unlinks() -> None:
    edits = Overlay(chain())
    edits.link(0, 3, DepKind.EVENT)
    edits.unlink(0, 1)
    changed = edits.freeze()
    assert changed[3].deps == (0, 2)
    assert changed[1].deps == ()
    with pytest.raises(GraphError, match="op 1 does not wait for op 0"):
        edits.unlink(0, 1)


def test_prioritise_and_replace_set_columns() -> None:
    edits = Overlay(chain())
    edits.prioritise([0, 2], 5)
    edits.replace([1], size_bytes=9, dur_ns=1)
    ops = edits.freeze().ops
    assert ops.priority.tolist() == [5, 0, 5, 0]
    assert (ops.size_bytes[1], ops.dur_ns[1]) == (9, 1)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.data())
def test_undoing_every_edit_gives_the_old_graph_back(seed: int, data: st.DataObject) -> None:
    graph = jumble(seed)
    edits = Overlay(graph)
    states = []
    for _ in range(data.draw(st.integers(1, 6))):
        states.append(edits.freeze())
        some_edit(edits, data)
    for state in reversed(states):
        edits.undo()
        assert same(edits.freeze(), state)
    assert same(edits.freeze(), graph)


def some_edit(edits: Overlay, data: st.DataObject) -> None:
    alive = np.flatnonzero(edits.new_ids() >= 0).tolist()
    if len(alive) < 3:
        edits.insert("filler", 0, 1)
        return
    one, other = data.draw(st.sampled_from(alive)), data.draw(st.sampled_from(alive))
    two = (one, other) if one != other else alive[:2]
    actions = {
        "scale": lambda: edits.scale([one], 0.5),
        "replace": lambda: edits.replace([one], dur_ns=3, step=2),
        "prioritise": lambda: edits.prioritise([one], 4),
        "insert": lambda: edits.insert("new", 0, 5, after=[one], place_after=one),
        "remove": lambda: edits.remove([one]),
        "link": lambda: edits.link(*sorted(two)),  # low ids first: no cycle
    }
    actions[data.draw(st.sampled_from(sorted(actions)))]()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda e: e.scale([0], float("nan")), "cannot scale durations by nan"),
        (lambda e: e.scale([0], -1), "cannot scale durations by -1"),
        (lambda e: e.scale([0], 1e30), "pass 2\\^62 ns"),
        (lambda e: e.scale([9], 1), "not among ids 0 to 3"),
        (lambda e: e.replace([0], dur_ns=-9), "op 0 would get a negative duration"),
        (lambda e: e.replace([0], colour=1), "no column 'colour'"),
        (lambda e: e.replace([0], lane=3), "lane 3 is not there; lanes are 0 to 0"),
        (lambda e: e.insert("x", 4, 1), "lane 4 is not there"),
        (lambda e: e.insert("x", 0, float("inf")), "not a finite number"),
        (lambda e: (e.remove([1]), e.scale([1], 2)), "op 1 has been removed"),
        (lambda e: e.link(2, 2), "op 2 cannot wait for itself"),
        (lambda e: e.undo(), "nothing to undo"),
    ],
)
def test_wrong_edits_are_refused(edit: Callable[[Overlay], object], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        edit(Overlay(chain()))


def test_undo_goes_back_to_a_mark() -> None:
    edits = Overlay(chain())
    edits.scale([0], 2)
    mark = edits.mark()
    edits.scale([1], 2)
    edits.remove([3])
    edits.undo(mark)
    assert edits.freeze().ops.dur_ns.tolist() == [20, 20, 30, 40]
    assert len(select(edits.freeze(), "all")) == 4


def test_a_selection_leaves_removed_ops_out_and_no_others() -> None:
    edited = Overlay(chain())
    edited.remove([1])
    assert edited.select("kind=compute").tolist() == [0, 2, 3]
