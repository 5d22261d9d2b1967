"""What recording cost is taken off the pieces of a thread."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.trace.pieces import without_price


def taken(own: list[int], price: list[int], lane: list[int] | None = None) -> list[int]:
    lanes = np.array(lane or [0] * len(own), np.int32)
    return without_price(lanes, np.array(own, np.int64), np.array(price, np.int64)).tolist()


def test_a_piece_that_is_too_short_leaves_the_rest_of_its_price_to_the_next() -> None:
    assert taken([100, 10, 100], [0, 30, 10]) == [100, 0, 70]
    assert taken([10, 10, 100], [30, 30, 0]) == [0, 0, 60]


def test_what_is_left_of_a_price_stays_on_its_lane() -> None:
    assert taken([10, 100], [30, 10], [0, 1]) == [0, 90]


def test_what_nothing_behind_can_bear_is_dropped() -> None:
    assert taken([100, 10], [0, 30]) == [100, 0]
    assert taken([], []) == []


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1))
def test_no_piece_becomes_negative_or_longer_and_no_more_than_the_price_goes(
    pieces: list[tuple[int, int]],
) -> None:
    own, price = map(list, zip(*pieces))
    found = taken(own, price)
    assert all(0 <= now <= before for now, before in zip(found, own))
    assert sum(own) - sum(found) <= sum(price)
    everything = taken([*own, sum(price)], [*price, 0])  # a last piece that bears what is left
    assert sum(everything) == sum(own)
