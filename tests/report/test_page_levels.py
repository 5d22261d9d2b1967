"""What a page draws of a window: merged below a pixel, equal in both engines, nothing lost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import ReplayError
from paceline.graph.synthetic import Ring, jumble, ring
from paceline.replay import Timeline, replay
from paceline.report.page import coarse
from paceline.report.page.levels import WAITING, Spans, Window, drawn, spans_of

needs_native = pytest.mark.needs("native")


def one_lane(*spans: tuple[int, int, int]) -> Spans:
    """(kind, start, end) of each."""
    kind, start, end = np.array(spans, np.int64).reshape(-1, 3).T
    lane = np.zeros(len(spans), np.int32)
    return Spans(1, lane, kind.astype(np.uint8), start.copy(), end.copy())


def rows(spans: Spans, window: Window) -> list[tuple[int, ...]]:
    """(kind, start, end, busy, ops, span) of each interval."""
    found = drawn(spans, window, reference=True)
    columns = (found.kind, found.start_ns, found.end_ns, found.busy_ns, found.ops, found.span)
    return list(zip(*(column.tolist() for column in columns)))


def test_what_is_shorter_than_a_pixel_is_merged_with_its_neighbours() -> None:
    # a pixel is 10 ns: 2, 3 and 4 ns long ones merge, with gaps of 1; the long one stands alone
    spans = one_lane((0, 0, 2), (1, 3, 6), (1, 6, 10), (0, 10, 30), (2, 30, 31))
    assert rows(spans, Window(0, 100, 10)) == [
        (1, 0, 10, 9, 3, -1),
        (0, 10, 30, 20, 1, 3),
        (2, 30, 31, 1, 1, 4),
    ]


def test_nothing_is_merged_over_a_gap_of_a_pixel() -> None:
    spans = one_lane((0, 0, 1), (0, 11, 12))
    assert len(rows(spans, Window(0, 100, 10))) == 2


def test_only_what_lies_in_the_window_is_drawn() -> None:
    spans = one_lane((0, 0, 10), (1, 10, 20), (2, 20, 30))
    assert [row[0] for row in rows(spans, Window(12, 20, 8))] == [1]


def timeline_of(seed: int) -> Timeline | None:
    try:
        return replay(jumble(seed, longest=80))
    except ReplayError:
        return None


@needs_native
@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**31), st.integers(1, 50), st.floats(0, 0.9), st.floats(0.01, 1))
def test_native_draws_what_its_definition_draws(
    seed: int, pixels: int, begins: float, lasts: float
) -> None:
    timeline = timeline_of(seed)
    if timeline is None:
        return
    step = timeline.step_ns
    window = Window(int(step * begins), int(step * min(1.0, begins + lasts)), pixels)
    one, other = (drawn(spans_of(timeline), window, reference=each) for each in (False, True))
    assert all(map(np.array_equal, vars(one).values(), vars(other).values()))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(1, 100))
def test_no_work_and_no_waiting_is_lost_however_coarse(seed: int, pixels: int) -> None:
    timeline = timeline_of(seed)
    if timeline is None:
        return
    spans = spans_of(timeline)
    found = drawn(spans, Window(0, max(1, timeline.step_ns), pixels))
    assert found.busy_ns.sum() == (spans.end_ns - spans.start_ns).sum()
    assert found.ops.sum() == len(spans.lane)
    per_lane = np.bincount(found.lane, minlength=spans.lanes)
    assert per_lane.max(initial=0) <= 3 * pixels + 3


def test_a_large_run_is_carried_as_finely_as_there_is_room_for() -> None:
    timeline = replay(ring(Ring(ranks=4, jitter=0.05)))
    spans = spans_of(timeline)
    assert WAITING not in spans.kind.tolist()
    part = coarse(spans, timeline.step_ns, len(spans.lane) // 3)
    assert len(spans.lane) // 12 < len(part.columns["level_lane"]) <= len(spans.lane) // 3
    whole = coarse(spans, timeline.step_ns, len(spans.lane))
    assert len(whole.columns["level_lane"]) == len(spans.lane)
