"""Every sample is one client's; skew is what the split asks for; bad input is refused by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.learn import ByClass, BySource, Dirichlet, Equal, LearnError, Samples, split
from paceline.learn.partition import how

SPLITS = (Equal(), ByClass(), ByClass(0.4), Dirichlet(0.1), Dirichlet(10.0), BySource())


@given(
    clients=st.integers(1, 12),
    split_=st.sampled_from(SPLITS),
    seed=st.integers(0, 5),
)
@settings(max_examples=40, deadline=None)
def test_every_sample_is_one_clients(toy, clients: int, split_, seed: int) -> None:
    samples = toy.clouds()
    made = split(samples, clients, split_, seed)
    assert sorted(np.concatenate(made.rows).tolist()) == list(range(len(samples)))
    assert made.counts.sum() == len(samples)
    assert 0 <= made.skew < 1


def test_skew_grows_with_the_share_that_is_dealt_out_by_class(toy) -> None:
    skews = [toy.dealt(3, ByClass(share)).skew for share in (0.0, 0.3, 0.6, 1.0)]
    assert skews == sorted(skews)
    assert skews[-1] == pytest.approx(2 / 3)  # one of three classes each
    assert skews[0] < 0.1


def test_a_smaller_concentration_skews_more(toy) -> None:
    mild, strong = (toy.dealt(8, Dirichlet(c)).skew for c in (100.0, 0.05))
    assert mild < 0.25 < 0.4 < strong


def test_sources_stay_together(toy) -> None:
    made, samples = toy.dealt(5, BySource()), toy.clouds()
    owners = [set(samples.sources[rows].tolist()) for rows in made.rows]
    assert sum(map(len, owners)) == len(set().union(*owners)) == 12


def test_more_clients_than_samples_are_refused(toy) -> None:
    with pytest.raises(LearnError, match="5 clients cannot share 4 samples"):
        split(toy.clouds(4), 5, Equal(), 1)


def test_more_clients_than_sources_are_refused(toy) -> None:
    with pytest.raises(LearnError, match="12 sources"):
        toy.dealt(13, BySource())


def test_an_empty_class_is_named() -> None:
    gap = Samples(np.zeros((6, 2), np.float32), np.array([0, 0, 2, 2, 3, 3]))
    with pytest.raises(LearnError, match="class 1 has no samples"):
        split(gap, 2, Equal(), 1)


def test_splits_are_written_as_text() -> None:
    assert how("dirichlet(concentration=0.3)") == Dirichlet(0.3)
    assert how("equal") == Equal()
    with pytest.raises(LearnError, match="did you mean dirichlet"):
        how("dirichlett")
    with pytest.raises(LearnError, match="share from 0 to 1"):
        how("by_class(skew=2)")
