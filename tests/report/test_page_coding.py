"""Bytes of a page's columns: native as specified, and one zlib stream however it was pressed."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.report.page.coding import plain_varints, varints
from paceline.report.page.deflate import deflated

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300))


@pytest.mark.needs("native")
@given(NUMBERS)
def test_native_varints_are_as_specified(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    assert varints(values) == plain_varints(values)
    assert varints(values[::2]) == plain_varints(values[::2])


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 19])
def test_pieces_are_one_stream(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 5, size, np.uint8).tobytes()
    pressed = deflated(data, 6)
    assert zlib.decompress(pressed) == data
    assert len(pressed) <= 1.001 * len(zlib.compress(data, 6)) + 10


def test_a_piece_refers_to_the_end_of_the_one_before() -> None:
    half = np.random.default_rng(0).bytes((1 << 20) - 10_000)
    data = half + half[-20_000:] * 2
    assert len(deflated(data, 6)) < len(half) + 12_000
