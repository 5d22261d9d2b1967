"""What rests cost, from times of passes by hand."""

from typing import Any

import pytest

from paceline.measure.resting import RestsCost, rests_cost


def passes(**after: float) -> dict[str, Any]:
    """A pass in a row takes 10 ms; after a rest it costs so much more, and a second one behind the
    longest rest as well."""
    longest = max(after.values())
    behind = [(4e-3 * each, 6e-3 * each) for each in (longest, longest, 1.01, 1.0)]
    return {
        "row": [(4e-3, 6e-3)] * 9,
        "after": {ms[1:]: [(4e-3 * each, 6e-3 * each)] * 5 for ms, each in after.items()},
        "behind": [behind] * 3,
    }


def test_the_longest_rest_says_how_much_and_half_of_it_from_where_and_how_long() -> None:
    found = rests_cost(passes(_2=1.0, _4=1.1, _8=1.3, _16=1.4))
    assert found.rest_ns is not None
    assert found.warm_ns is not None
    assert found.rested.value == pytest.approx(1.4)
    assert found.rest_ns.value == pytest.approx(6e6)  # costs 0.2, between 4 and 8 ms
    assert (found.rest_ns.low, found.rest_ns.high) == (4e6, 8e6)
    assert found.warm_ns.value == pytest.approx(28e6)
    assert found.warm_ns.low == pytest.approx(14e6)


def test_rests_that_cost_less_than_chance_cost_nothing() -> None:
    found = rests_cost(passes(_2=1.0, _16=1.02))
    assert found == RestsCost(found.rested)
    assert found.rested.value == 1.0


def test_work_that_is_warm_at_once_was_cold_for_the_half_pass_that_was_seen() -> None:
    """So it is told from 0, which stands for one op, however long."""
    found = rests_cost(passes(_2=1.0, _16=1.4) | {"behind": [[(4e-3, 6e-3)] * 4] * 3})
    assert found.warm_ns is not None
    assert found.warm_ns.value == pytest.approx(5e6)
