"""Weights as one flat vector, whose memory is used again."""

import pytest

torch = pytest.importorskip("torch")

from paceline.runtime.rounds.torch_flat import Packed  # noqa: E402


def test_the_same_memory_holds_the_next_numbers() -> None:
    packed = Packed()
    first = packed.of(0, [torch.ones(2, 3), torch.zeros(4)])
    assert first.tolist() == [1] * 6 + [0] * 4
    again = packed.of(0, [torch.full((2, 3), 2.0), torch.ones(4)])
    assert again.tolist() == [2] * 6 + [1] * 4
    assert again.data_ptr() == first.data_ptr()


def test_fragments_and_numbers_that_were_not_there_have_memory_of_their_own() -> None:
    packed = Packed()
    one, other = packed.of(0, [torch.ones(3)]), packed.of(1, [torch.zeros(3)])
    more = packed.of(0, [torch.ones(3), torch.ones(2)])
    assert one.tolist() == [1] * 3
    assert other.tolist() == [0] * 3
    assert more.tolist() == [1] * 5
