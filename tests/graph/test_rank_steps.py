"""What rows of one place have in common."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.graph.kinds import NONE
from paceline.graph.rank_steps import largest

values = st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 3)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 4), values), max_size=30))
def test_the_largest_of_a_row_is_the_last_of_equal_ones(cells: list[tuple[int, int]]) -> None:
    rows = np.array([row for row, _ in cells], np.int64)
    found = largest(rows, np.array([value for _, value in cells], np.int64), 5)
    for row in range(5):
        mine = [(value, at) for at, (other, value) in enumerate(cells) if other == row]
        assert found[row] == max(mine, default=(0, NONE))[1]
