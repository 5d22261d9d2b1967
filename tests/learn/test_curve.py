"""Curves and what follows from them: levels that never fall, laws whose interval holds."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.learn import LearnError
from paceline.learn.curve import Curve, reach_of, rising, scatter
from paceline.learn.law import laws_of
from paceline.learn.progress import Expected
from paceline.learn.told_curve import read_curve


def power(rounds, limit=0.9, scale=0.6, exponent=0.7):
    return limit - scale * (rounds + 1) ** -exponent


def exponential(rounds, limit=0.88, scale=0.5, length=40.0):
    return limit - scale * np.exp(-rounds / length)


def curve(law, until: int, noise: float = 0.004, seed: int = 0) -> Curve:
    rounds = np.arange(1.0, until + 1)
    drawn = np.random.default_rng(seed).normal(size=until)
    accuracy = law(rounds) + noise * drawn
    return Curve(rounds, accuracy, scatter(accuracy))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_level_never_falls_and_keeps_the_mean(values: list[float]) -> None:
    found = rising(np.array(values))
    assert (np.diff(found) >= -1e-12).all()
    assert found.mean() == pytest.approx(np.mean(values), abs=1e-9)


def test_what_rises_already_is_its_own_level() -> None:
    rises = np.array([0.1, 0.4, 0.4, 0.9])
    assert np.array_equal(rising(rises), rises)


def test_the_scatter_of_judgements_is_found_beside_a_trend() -> None:
    assert curve(exponential, 200, noise=0.01).error == pytest.approx(0.01, rel=0.3)


@pytest.mark.parametrize("law", [power, exponential])
def test_a_curve_is_carried_on_to_twice_its_length(law) -> None:
    true = 120.0
    found = reach_of([curve(law, 60)], float(law(true)))
    assert not found.observed
    assert found.low <= true <= (found.high or np.inf)
    assert found.rounds == pytest.approx(true, rel=0.35)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 50), exponent=st.sampled_from((0.5, 0.8, 1.2)))
def test_most_intervals_hold_what_a_longer_run_shows(seed: int, exponent: float) -> None:
    """Of the accuracy at twice the length, nine in ten laws' middle spread within a point."""

    def law(rounds):
        return power(rounds, exponent=exponent)

    made = curve(law, 60, seed=seed)
    low, high = np.percentile(made.laws.at(120.0), [1, 99])
    assert low - 0.005 <= law(120.0) <= high + 0.005


def test_fewer_judgements_make_a_wider_interval() -> None:
    def width(until: int) -> float:
        low, high = np.percentile(curve(power, until).laws.at(300.0), [5, 95])
        return float(high - low)

    assert width(20) > width(150)


def test_laws_fall_nowhere_and_lead_to_accuracies() -> None:
    rounds = np.arange(1.0, 30)
    laws = laws_of(rounds, np.full(29, 0.5), 0.01)
    assert (laws.scale > 0).all()
    assert (laws.limit <= 1).all()
    assert np.isinf(laws.crossing(1.5)).all()


def test_a_lower_accuracy_gets_there_later_and_less_surely() -> None:
    known = Expected((curve(exponential, 60), curve(exponential, 60, seed=1)), 0.8)
    plain, lower = known.batches(0.0, 0.0), known.batches(0.02, 0.002)
    assert plain.middle < lower.middle
    assert lower.high - lower.low > plain.high - plain.low
    assert known.batches(0.195, 0.0) is None


def test_a_curve_is_read_as_csv_and_as_json_lines(tmp_path: Path) -> None:
    rows = [(10 * n, 0.5 + 0.01 * n) for n in range(1, 9)]
    (tmp_path / "a.csv").write_text(
        "step,loss,accuracy\n" + "".join(f"{s},1.0,{a}\n" for s, a in rows)
    )
    (tmp_path / "a.jsonl").write_text(
        "".join(f'{{"step": {s}, "accuracy": {a}}}\n' for s, a in rows)
    )
    one, other = read_curve(tmp_path / "a.csv"), read_curve(tmp_path / "a.jsonl")
    assert np.array_equal(one.accuracy, other.accuracy)
    assert one.rounds.tolist() == [s for s, _ in rows]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step,accuracy\n1,0.5\n", "behind 1 steps"),
        ("step,accuracy\n1,85\n2,86\n3,87\n4,88\n", "shares of right answers"),
        ("round,accuracy\n1,0.5\n", "has no step and accuracy"),
        ("{oh\n", "neither CSV nor JSON"),
    ],
)
def test_what_is_no_curve_is_said(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "curve").write_text(text)
    with pytest.raises(LearnError, match=said):
        read_curve(tmp_path / "curve")
    with pytest.raises(LearnError, match="columns step and accuracy"):
        read_curve(tmp_path / "none")
