"""Which op of one step is which of another."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.graph import NONE
from paceline.trace.alike import MOST, apart, matched

LAYER = ("linear", "t", "addmm", "relu")
NAMES = st.lists(st.sampled_from(["mm", "add", "t", "relu"]), max_size=40)


def longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """By the table that the algorithm does without."""
    table = np.zeros((len(one) + 1, len(other) + 1), np.int64)
    for row, mine in enumerate(one):
        for column, theirs in enumerate(other):
            best = max(table[row, column + 1], table[row + 1, column])
            table[row + 1, column + 1] = table[row, column] + 1 if mine == theirs else best
    return int(table[-1, -1])


@given(NAMES, NAMES)
def test_as_many_ops_have_a_partner_as_can(one: list[str], other: list[str]) -> None:
    best, place = longest_common(one, other), matched(one, other)
    if place is None:
        assert 2 * best < (1 - MOST) * (len(one) + len(other))
        return
    known = np.flatnonzero(place != NONE)
    assert len(known) == best
    assert [one[row] for row in known] == [other[row] for row in place[known]]
    assert (np.diff(place[known]) > 0).all()


def test_an_op_that_is_missing_leaves_the_others_with_their_partners() -> None:
    place = matched(("mm", "zero_", "relu", "add"), ("mm", "relu", "add"))
    assert place is not None
    assert place.tolist() == [0, NONE, 1, 2]


def test_steps_longer_than_a_window_are_matched_to_their_ends() -> None:
    step = [f"{name}{layer % 7}" for layer in range(600) for name in LAYER]
    routed = [name for row, name in enumerate(step) if row % 50]
    place = matched(step, routed)
    assert place is not None
    assert place[-1] == len(routed) - 1
    assert int((place != NONE).sum()) == len(routed)


def test_other_steps_have_nothing_in_common_with_it() -> None:
    assert matched(LAYER * 400, ("conv2d", "max_pool2d") * 800) is None


def test_the_part_without_a_partner_is_of_both_steps() -> None:
    place = matched(("mm", "relu", "add"), ("mm", "relu", "add", "zero_"))
    assert apart(place, 4) == 1 - 6 / 7
    assert apart(None, 4) == 1.0
    assert apart(matched((), ()), 0) == 0.0
