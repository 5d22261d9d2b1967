"""How rows are cut into chunks that travel."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="chunks travel through torch.distributed")

from paceline.weave.backends.travel import Chunking


def test_even_and_tapered_chunks_by_hand() -> None:
    assert Chunking(4).borders(8) == [2, 4, 6]
    assert Chunking(3, 0.5).borders(7) == [4, 6]
    assert Chunking(4).borders(1) == []


@settings(deadline=None)
@given(st.integers(1, 40), st.floats(0.3, 1.0), st.integers(1, 100))
def test_every_row_is_in_one_chunk_and_no_chunk_is_empty(chunks, taper, rows) -> None:
    borders = [0, *Chunking(chunks, taper).borders(rows), rows]
    assert all(a < b for a, b in pairwise(borders))
    assert len(borders) == min(chunks, rows) + 1
