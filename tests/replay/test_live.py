"""Incremental replay equals a full one after every edit and every undo."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import GraphError, ReplayError
from paceline.graph import GraphBuilder, select
from paceline.graph.synthetic import Ring, jumble, ring
from paceline.replay import Live, replay


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**9), st.booleans(), st.data())
def test_a_live_replay_equals_a_full_one(seed: int, recorded: bool, data: st.DataObject) -> None:
    graph = jumble(seed, recorded=recorded)
    try:
        live = Live(graph)
        steps = [live.step_ns]
        for _ in range(data.draw(st.integers(1, 5))):
            ops = data.draw(st.sets(st.integers(0, len(graph) - 1), min_size=1, max_size=4))
            live.resize(sorted(ops), data.draw(st.integers(0, 2**40)))
            steps.append(live.step_ns)
            assert_equal(live)
    except ReplayError:
        return  # stuck, as a full replay would be
    for step_ns in reversed(steps[:-1]):
        assert live.undo() == step_ns
        assert_equal(live)
    assert np.array_equal(live.dur_ns, graph.ops.dur_ns)


def assert_equal(live: Live) -> None:
    full, followed = replay(live.graph, prices=live.dur_ns), live.timeline()
    for column in ("ready_ns", "start_ns", "end_ns"):
        assert np.array_equal(getattr(full, column), getattr(followed, column))
    assert full.step_ns == live.step_ns


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9), st.data())
def test_links_insertions_and_removals_are_followed_exactly(seed: int, data: st.DataObject) -> None:
    live = Live(jumble(seed, recorded=True))
    steps = [live.step_ns]
    for _ in range(data.draw(st.integers(1, 7))):
        before = live.step_ns
        try:
            steps.append(some_edit(live, data))
        except (GraphError, ReplayError):  # a cycle, a link that is not there: nothing happened
            assert live.step_ns == before
        assert live.step_ns == replay(live.freeze()).step_ns
    for step_ns in reversed(steps[:-1]):
        assert live.undo() == step_ns
    assert np.array_equal(live.freeze().ops.dur_ns, live.graph.ops.dur_ns)


def some_edit(live: Live, data: st.DataObject) -> int:
    """One edit of any sort, on ops that are still there; members of instances stay."""
    names = live.freeze().ops
    alive = [op for op in range(len(live.dur_ns)) if live.alive(op)]
    one, other = data.draw(st.sampled_from(alive)), data.draw(st.sampled_from(alive))
    lane = int(names.lane[data.draw(st.integers(0, len(names) - 1))])
    dur_ns = data.draw(st.integers(0, 9))
    edits = {
        "resize": lambda: live.resize([one], dur_ns),
        "link": lambda: live.link(one, other),
        "unlink": lambda: live.unlink(*known_link(live, data)),
        "insert": lambda: live.insert("new", lane, dur_ns, after=[one], place_after=one),
        "insert before": lambda: live.insert("new", lane, dur_ns, before=[one], place_after=other),
        "remove": lambda: live.remove([one] if len(alive) > 1 else []),
    }
    return edits[data.draw(st.sampled_from(sorted(edits)))]()


def known_link(live: Live, data: st.DataObject) -> tuple[int, int]:
    """A dependency of the first graph, which may be gone by now."""
    deps = live.graph.deps
    if not len(deps):
        return 0, 0
    row = data.draw(st.integers(0, len(deps) - 1))
    return int(deps.src[row]), int(np.searchsorted(deps.ptr, row, "right")) - 1


@pytest.mark.parametrize("native", [True, False])
def test_a_link_against_the_order_is_followed_and_a_cycle_is_refused(
    native: bool, without_core: Callable[[], AbstractContextManager[None]]
) -> None:
    with nullcontext() if native else without_core():
        against_the_order()


def against_the_order() -> None:
    b = GraphBuilder()
    lanes = [b.lane() for _ in range(3)]
    for number, lane in enumerate(lanes):
        b.op(f"op {number}", lane, 10 * (number + 1))
    live = Live(b.build())
    assert live.step_ns == 30
    assert live.link(2, 0) == 40  # op 0 behind op 2
    with pytest.raises(GraphError, match="a cycle"):
        live.link(0, 2)
    assert live.insert("new", 1, 5, after=[0]) == 45
    assert live.remove([2]) == 25  # op 1 and op 0 start at once: 20, then 5 more
    assert [live.undo() for _ in range(3)] == [45, 40, 30]


def test_resizing_tensors_of_a_ring_is_followed_exactly() -> None:
    graph, random = ring(Ring(ranks=8, jitter=0.1)), np.random.default_rng(5)
    live = Live(graph)
    for _ in range(20):
        tensor = select(graph, f"tensor=tensor {random.integers(50)},kind=transfer")
        live.scale(tensor, random.uniform(0.3, 3))
        assert live.step_ns == replay(graph, prices=live.dur_ns).step_ns


def test_an_edit_that_changes_nothing_changes_no_time() -> None:
    graph = ring(Ring(ranks=2))
    live = Live(graph)
    before = live.step_ns
    assert live.scale(np.arange(len(graph)), 1.0) == before


def test_a_factor_must_be_a_number() -> None:
    with pytest.raises(ReplayError, match="cannot scale durations by nan"):
        Live(ring(Ring(ranks=2))).scale([0], float("nan"))
