"""The largest values, found by a sample: exactly those that sorting all finds."""

from math import nan

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from paceline.runtime.codecs.torch_largest import Above, Largest, Searches  # noqa: E402

COUNT = 60_000


def drawn(seed: int, power: float) -> "torch.Tensor":
    """The higher the power, the fewer are large."""
    values = torch.randn(COUNT, generator=torch.Generator().manual_seed(seed))
    return values * values.abs() ** power


def by_sorting(values: "torch.Tensor", many: int) -> list[int]:
    return sorted(values.abs().topk(many).indices.tolist())


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 1000),
    power=st.sampled_from([-0.9, 0.0, 4.0]),
    many=st.integers(500, 6_000),
    sort=st.booleans(),
)
def test_they_are_those_that_sorting_all_finds(
    seed: int, power: float, many: int, sort: bool
) -> None:
    values = drawn(seed, power)
    values = values.abs().sort(descending=bool(seed % 2)).values if sort else values
    largest = Largest()
    for each in (values, -values):  # the second search uses the first one's memory
        assert sorted(largest.places(each, many).tolist()) == by_sorting(each, many)


def test_a_sample_that_is_wrong_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    values = drawn(0, 0.0)
    values[::61] *= 1000  # what the sample sees
    found, asked = Largest(), []
    monkeypatch.setattr(
        Searches, "above", lambda *of: asked.append(of) or Above(of[1]).places(*of[1:])
    )
    many = 3_000
    assert sorted(found.places(values, many).tolist()) == by_sorting(values, many)
    assert len(asked) == 1


def test_few_values_large_shares_and_other_types_are_sorted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Searches, "above", lambda *_: pytest.fail("searched"))
    values = drawn(1, 0.0)
    for each, many in ((values, 20), (values, 10_000), (values.double(), 1_000)):
        assert sorted(Largest().places(each, many).tolist()) == by_sorting(each, many)


def test_what_is_no_number_is_among_the_largest_and_so_is_seen() -> None:
    values = drawn(2, 0.0)
    values[12_345] = nan
    assert 12_345 in Largest().places(values, 600).tolist()
    assert 12_345 in Searches().above(values, 1e30).tolist()
