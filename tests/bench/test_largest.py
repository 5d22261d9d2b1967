"""The largest batch that fits is found in few trials."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.bench.largest import FINE, largest_fitting


@given(st.integers(0, 5000), st.integers(1, 5000))
def test_what_is_found_fits_and_little_more_would(true_limit: int, above: int) -> None:
    tried = []

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= true_limit

    found = largest_fitting(0, true_limit + above, fits)
    assert found <= true_limit
    assert true_limit < found + max(1, found // FINE) + 1
    assert len(tried) <= 14


def test_nothing_is_tried_between_neighbours() -> None:
    assert largest_fitting(7, 8, lambda batch: True) == 7
