"""Noise: what two runs of one job differ by, and what is beyond it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from paceline.compare import Side, Verdict, diff
from paceline.compare.noise import Steps, correlation, noise_of
from paceline.report.text.difference_words import verdict_line

Sides = Callable[..., Side]
CALM = (900_000, 905_000, 895_000, 902_000, 898_000, 901_000, 899_000, 900_500)


def test_two_runs_of_the_same_job_have_no_difference_beyond_noise(side: Sides) -> None:
    other = tuple(ns + 2_000 for ns in reversed(CALM))
    found = diff(side(CALM), side(other))
    assert found.verdict is Verdict.SAME
    assert not found.fails_above(0.0)


def test_a_step_longer_than_its_spread_is_slower_and_fails(side: Sides) -> None:
    slower = tuple(ns + 90_000 for ns in CALM)
    found = diff(side(CALM), side(slower, late={(1, "two"): 90.0}))
    assert found.verdict is Verdict.SLOWER
    assert found.change == pytest.approx(0.1, abs=0.002)
    assert found.fails_above(0.03)
    assert not found.fails_above(0.2)


def test_a_faster_run_never_fails(side: Sides) -> None:
    found = diff(side(tuple(ns + 90_000 for ns in CALM)), side(CALM))
    assert found.verdict is Verdict.FASTER
    assert not found.fails_above(0.0)


def test_one_step_each_is_compared_and_said_not_to_be_tested(side: Sides) -> None:
    assert diff(side((900_000,)), side((990_000,))).verdict is Verdict.UNTESTED


def test_a_part_that_does_not_spread_is_seen_through_steps_that_do(side: Sides) -> None:
    wild = (600_000, 1_300_000, 700_000, 1_200_000, 650_000, 1_250_000, 900_000, 950_000)
    slower = tuple(ns + 90_000 for ns in wild)
    found = diff(side(wild), side(slower, late={(1, "two"): 90.0}))
    assert abs(found.change_ns) < found.noise_ns
    assert found.by_part
    assert found.verdict is Verdict.SLOWER


def test_a_slower_link_is_not_seen_through_steps_that_spread(side: Sides) -> None:
    wild = (600_000, 1_300_000, 700_000, 1_200_000, 650_000, 1_250_000, 900_000, 950_000)
    found = diff(side(wild), side(tuple(ns + 90_000 for ns in wild), message_us=390.0))
    assert found.verdict is Verdict.SAME


def test_what_other_programs_ran_beside_the_slower_run_may_be_why(side: Sides) -> None:
    before = replace(side(CALM), others_ns=10_000.0)
    slower = tuple(ns + 90_000 for ns in CALM)
    beside = replace(side(slower), others_ns=120_000.0)
    found = diff(before, beside)
    assert found.verdict is Verdict.DISTURBED
    assert not found.fails_above(0.0)
    assert "other programs ran 10.0 us beside a step of run and 120 us" in verdict_line(found)
    assert diff(before, replace(beside, others_ns=60_000.0)).verdict is Verdict.SLOWER
    assert diff(before, replace(beside, others_ns=None)).verdict is Verdict.SLOWER


def test_what_other_programs_ran_beside_the_faster_run_explains_nothing(side: Sides) -> None:
    beside = replace(side(CALM), others_ns=120_000.0)
    slower = replace(side(tuple(ns + 90_000 for ns in CALM)), others_ns=10_000.0)
    assert diff(beside, slower).verdict is Verdict.SLOWER


def test_beside_other_programs_no_part_decides_alone(side: Sides) -> None:
    wild = (600_000, 1_300_000, 700_000, 1_200_000, 650_000, 1_250_000, 900_000, 950_000)
    slower = side(tuple(ns + 90_000 for ns in wild), late={(1, "two"): 90.0})
    for others, wanted in ((5_000.0, Verdict.SLOWER), (200_000.0, Verdict.SAME)):
        pair = (replace(each, others_ns=others) for each in (side(wild), slower))
        assert diff(*pair).verdict is wanted


def test_steps_that_are_like_their_neighbours_tell_less() -> None:
    draw = np.random.default_rng(5).normal(0, 20_000, 40)
    walk = np.convolve(draw, np.ones(6) / np.sqrt(6), "same")
    shuffled = np.random.default_rng(6).permutation(walk)
    apart, alike = (Steps((tuple((1e6 + each).astype(int).tolist()),)) for each in (shuffled, walk))
    assert correlation(alike) > 0.5 > correlation(apart)
    assert noise_of(alike, alike).noise_ns > 1.5 * noise_of(apart, apart).noise_ns


def test_a_drift_between_two_stretches_is_noise() -> None:
    still = Steps((CALM, CALM))
    drifting = Steps((CALM, tuple(ns + 60_000 for ns in CALM)))
    assert noise_of(still, drifting).noise_ns >= 60_000
    assert noise_of(still, still).noise_ns < 20_000


@pytest.mark.parametrize("stretch", [3, 6, 12])
@pytest.mark.parametrize("drift", [0.0, 1.0, 3.0])
def test_unchanged_pairs_are_seldom_called_however_few_steps_there_are(
    stretch: int, drift: float
) -> None:
    """Steps spread by 2 %, and the middles of a run's two stretches by so many times that. Twice
    the standard error calls up to 17 % of these pairs."""
    draw = np.random.default_rng(11)

    def run() -> Steps:
        middles = 1e6 + draw.normal(0, drift * 20_000, 2)
        drawn = draw.normal(middles[:, None], 20_000, (2, stretch))
        return Steps(tuple(tuple(each) for each in drawn.astype(int).tolist()))

    called = 0
    for _ in range(1_000):
        a, b = run(), run()
        called += abs(a.median_ns - b.median_ns) > noise_of(a, b).noise_ns
    assert called <= 90


def test_many_steps_need_two_standard_errors_and_two_stretches_alone_more() -> None:
    draw = np.random.default_rng(3).normal(1e6, 20_000, 400).astype(int).tolist()
    steady = Steps((tuple(draw),))
    error = 1.2533 * 20_000 / np.sqrt(400) * np.sqrt(2)
    assert noise_of(steady, steady).noise_ns == pytest.approx(
        max(2 * error, 0.01 * steady.median_ns), rel=0.15
    )
    apart = Steps(((1_000_000,) * 9, (1_100_000,) * 9))
    assert noise_of(apart, apart).noise_ns > 3 * 50_000 * np.sqrt(2)
