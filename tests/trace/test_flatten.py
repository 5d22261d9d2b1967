"""Threads as timelines of self time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.engine import native
from paceline.trace.flatten import GAP, flatten, plain_flatten
from paceline.trace.phases import plain_outer


def columns(
    ranges: list[tuple[int, int, int]], cuts: list[tuple[int, int]]
) -> tuple[np.ndarray, ...]:
    table = np.array(ranges, np.int64).reshape(-1, 3)
    table = table[np.lexsort((-table[:, 2], table[:, 1], table[:, 0]))]
    marks = np.unique(np.array(cuts, np.int64).reshape(-1, 2), axis=0)
    return (
        table[:, 0].astype(np.int32),
        np.ascontiguousarray(table[:, 1]),
        np.ascontiguousarray(table[:, 2]),
        marks[:, 0].astype(np.int32),
        np.ascontiguousarray(marks[:, 1]),
    )


def test_self_time_goes_to_the_innermost_range_and_gaps_to_nobody() -> None:
    parts = flatten(*columns([(0, 0, 100), (0, 10, 30), (0, 40, 40), (0, 120, 130)], []))
    assert list(zip(parts.owner.tolist(), parts.start_ns.tolist(), parts.end_ns.tolist())) == [
        (0, 0, 10),
        (1, 10, 30),
        (0, 30, 40),
        (2, 40, 40),
        (0, 40, 100),
        (GAP, 100, 120),
        (3, 120, 130),
    ]


def test_a_cut_ends_a_piece_in_the_middle_of_a_range_and_of_a_gap() -> None:
    parts = flatten(*columns([(0, 0, 10), (0, 20, 30)], [(0, 4), (0, 15)]))
    assert parts.end_ns.tolist() == [4, 10, 15, 20, 30]
    assert parts.after_cut.tolist() == [False, True, False, True, False]


def test_a_range_that_outlasts_its_parent_is_clipped_to_it() -> None:
    parts = flatten(*columns([(0, 0, 10), (0, 5, 11)], []))
    assert parts.end_ns.tolist() == [5, 10]


def test_each_border_inside_a_piece_counts_once_for_the_cost_of_recording() -> None:
    parts = flatten(*columns([(0, 0, 100), (0, 10, 20), (0, 30, 40)], []))
    assert parts.owner.tolist() == [0, 1, 0, 2, 0]
    assert parts.borders.tolist() == [1, 0, 2, 0, 1]


ranges = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 30)).map(
        lambda row: (row[0], row[1], row[1] + row[2])
    ),
    max_size=14,
)
cuts = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 95)), max_size=6)


@settings(deadline=None, max_examples=200)
@given(ranges, cuts)
def test_every_moment_of_a_thread_belongs_to_exactly_one_piece(
    rows: list[tuple[int, int, int]], marks: list[tuple[int, int]]
) -> None:
    parts = flatten(*columns(rows, marks))
    for lane in {row[0] for row in rows}:
        mine = parts.lane == lane
        start, end = parts.start_ns[mine], parts.end_ns[mine]
        assert start[0] == min(row[1] for row in rows if row[0] == lane)
        assert (start[1:] == end[:-1]).all()
        assert (end >= start).all()


@pytest.mark.skipif(native() is None, reason="the native core is not built")
@settings(deadline=None, max_examples=200)
@given(ranges, cuts)
def test_native_flattening_equals_the_plain_one(
    rows: list[tuple[int, int, int]], marks: list[tuple[int, int]]
) -> None:
    core = native()
    assert core is not None
    given_columns = columns(rows, marks)
    for mine, theirs in zip(core.flatten(*given_columns), plain_flatten(*given_columns)):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.skipif(native() is None, reason="the native core is not built")
@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 20), max_size=20))
def test_native_outer_ranges_equal_the_plain_ones(ends: list[int]) -> None:
    core = native()
    assert core is not None
    column = np.array(ends, np.int64)
    assert core.outer_ranges(column).tolist() == plain_outer(column).tolist()
