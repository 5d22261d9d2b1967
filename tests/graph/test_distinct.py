"""Numbers of long columns, found a block of rows at a time."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.graph.distinct import BLOCK, Distinct, blocks, blocks_of_ranks, runs
from paceline.graph.graph import Int32

SETTINGS = settings(deadline=None, max_examples=100)
numbers = st.integers(-1, 9) | st.integers(-(2**31), 2**31 - 1)
columns = st.lists(numbers, max_size=40).map(lambda values: np.array(values, np.int32))


@SETTINGS
@given(columns)
def test_distinct_numbers_and_their_places_are_those_of_unique(column: Int32) -> None:
    found, (wanted, places) = Distinct.of(column), np.unique(column, return_inverse=True)
    assert found.numbers.tolist() == wanted.tolist()
    assert found.places(column).tolist() == places.tolist()


def test_blocks_cover_every_row_once() -> None:
    rows = np.arange(2 * BLOCK + 3)
    assert np.array_equal(np.concatenate([rows[each] for each in blocks(len(rows))]), rows)


@SETTINGS
@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 20), st.booleans())
def test_no_rank_lies_in_two_parts(ranks: list[int], block: int, ascending: bool) -> None:
    rank = np.array(sorted(ranks) if ascending else ranks, np.int32)
    parts = blocks_of_ranks(rank, block)
    assert np.array_equal(np.concatenate([rank[each] for each in parts]), rank)
    held = [set(rank[each].tolist()) for each in parts]
    assert sum(map(len, held)) == len(set(ranks))


def test_long_columns_of_ascending_ranks_are_parted() -> None:
    assert len(blocks_of_ranks(np.repeat(np.arange(6, dtype=np.int32), 10), 20)) == 3


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40))
def test_a_run_begins_wherever_a_column_changes(rows: list[tuple[int, int]]) -> None:
    one, other = (np.array(column, np.int32) for column in zip(*rows))
    wanted = [0, *(at for at, (a, b) in enumerate(pairwise(rows), 1) if a != b)]
    assert runs(one, other).tolist() == wanted
