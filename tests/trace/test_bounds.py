"""Where the ends of communication say that a clock lies."""

import numpy as np
import pytest

from paceline.trace.bounds import Bounds
from paceline.trace.strays import one_less

DRIFT, FIRST, SPAN = 1e-5, 1000.0, 9e9


def met(count: int) -> Bounds:
    """Meetings whose ends differ by the clocks alone, give or take 10 ns."""
    at = np.linspace(0.0, SPAN, count)
    noise = np.where(np.arange(count) % 2, 10.0, -10.0)
    none = np.zeros(0)
    return Bounds(none, none, none, none, at, FIRST + DRIFT * at + noise)


def test_the_strip_follows_the_ends_and_is_as_wide_as_they_scatter() -> None:
    strip = met(11).strip(SPAN, 1e-3)
    assert strip is not None
    middle = (strip.low + strip.high) / 2
    assert middle == pytest.approx([FIRST, FIRST + DRIFT * SPAN], abs=10)
    assert (strip.high - strip.low <= 2 * (3 * 10 + 1)).all()


def test_four_ends_say_nothing_and_five_do() -> None:
    assert met(4).strip(SPAN, 1e-3) is None
    assert met(5).strip(SPAN, 1e-3) is not None


def test_every_vertex_of_the_hull_is_doubted_in_turn() -> None:
    """Lower bounds that bend down at each: any of them may have cut the truth off."""
    at, none = np.arange(5.0), np.zeros(0)
    bounds = Bounds(at, np.array([1.0, 3.0, 4.0, 4.5, 4.6]), none, none, none, none)
    left = [less.low.tolist() for less in one_less(bounds)]
    assert len(left) == 5
    assert all(len(low) == 4 for low in left)
