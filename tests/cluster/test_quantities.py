"""Units are read strictly and shown so that they can be read back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import ClusterError
from paceline.cluster.quantities import (
    arithmetic,
    clock,
    duration,
    rate,
    show_duration,
    show_rate,
    show_size,
    size,
)


def test_bits_become_bytes_and_prefixes_are_decimal_or_binary() -> None:
    assert rate("100Gbps") == 12.5e9
    assert rate("300 GB/s") == 300e9
    assert size("80GiB") == 80 * 2**30
    assert size("64KB") == 64_000
    assert duration("10us") == 10_000
    assert clock("1.41GHz") == pytest.approx(1.41e9)
    assert arithmetic("312TFLOPS") == 312e12


@pytest.mark.parametrize("text", ["100", "100Gb", "10 gbps", "fast", "-1Gbps", "1e3", None, 5])
def test_a_missing_or_unknown_unit_names_those_that_are_allowed(text: object) -> None:
    with pytest.raises(ClusterError, match=r"Gbps.*GB/s"):
        rate(text, "link.rate")


def test_a_bare_zero_needs_no_unit() -> None:
    assert (rate(0), duration(0), size(0)) == (0, 0, 0)


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-3, 1e15), st.integers(0, 2**50), st.integers(0, 10**15))
def test_what_is_shown_is_read_back_exactly(r: float, s: int, t: int) -> None:
    assert rate(show_rate(r)) == r
    assert size(show_size(s)) == s
    assert duration(show_duration(t)) == t
