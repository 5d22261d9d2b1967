"""Incremental replay equals a full one after every edit and every undo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import ReplayError
from paceline.graph import select
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
