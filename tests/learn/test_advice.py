"""Words follow from measurements alone: from runs that differ in one thing, beyond chance."""

from dataclasses import replace

import pytest

from paceline.learn import LearnError, LearnRun, Meeting
from paceline.learn.advice import advice
from paceline.learn.arms import arms, arms_of_any_length, names_of
from paceline.learn.record import Judged, Round


def made(accuracy: float, seed: int = 1, sent: int = 100, **settings) -> LearnRun:
    run = LearnRun(
        algorithm="fedavg()", partition="ByClass(skew=1.0)", skew=0.8, clients=5, seed=seed,
        meeting=Meeting.SERVER, lag=0, test_samples=4000, model="cnn-batch-norm",
        rounds=(Round(0, (), ()),), judged=(Judged(0, accuracy, sent),),
    )  # fmt: skip
    return replace(run, **settings)


def test_another_normalisation_that_is_better_is_named_with_both_accuracies() -> None:
    said = advice([made(0.61), made(0.88, model="cnn-group-norm")])
    assert said == (
        "replace batch normalisation by group normalisation: 0.610 -> 0.880 on ByClass(skew=1.0)",
    )


def test_a_difference_within_chance_is_no_advice() -> None:
    assert advice([made(0.850), made(0.855, model="cnn-group-norm")]) == ()
    noisy = [made(0.80, 1), made(0.90, 2), made(0.82, 1, model="cnn"), made(0.94, 2, model="cnn")]
    assert advice(noisy) == ()


def test_what_skew_costs_is_told() -> None:
    (said,) = advice([made(0.7), made(0.85, partition="Equal()", skew=0.05)])
    assert "skewed data cost 15.0 points" in said


def test_as_accurate_with_fewer_bytes_is_told() -> None:
    (said,) = advice([made(0.85, sent=1000), made(0.85, sent=100, algorithm="gaia()")])
    assert (
        said == "gaia() instead of fedavg(): as accurate within the noise, with 0.1 times the bytes"
    )


def test_clients_that_were_left_out_are_named() -> None:
    broken = made(0.8, rounds=(Round(0, (), (), broken=(3,)), Round(1, (), (), broken=(3,))))
    (said,) = advice([broken])
    assert "client 3 sent infinite numbers or none in 2 of 2 rounds" in said
    assert "left out of these" in said
    (said,) = advice([replace(broken, meeting=Meeting.ALL, rounds=broken.rounds[:1])])
    assert "none in round 1 of fedavg() and was left out from then on" in said


def test_seeds_make_one_arm() -> None:
    found = arms([made(0.8, 1), made(0.9, 2)])
    assert len(found) == 1
    assert round(found[0].accuracy, 6) == 0.85


def test_runs_of_other_lengths_or_in_two_ways_different_are_no_advice() -> None:
    longer = {"rounds": (Round(0, (), ()), Round(1, (), ()))}
    assert advice([made(0.6), made(0.9, **longer)]) == ()
    assert advice([made(0.6), made(0.9, model="cnn", **longer)]) == ()
    assert advice([made(0.6), made(0.9, model="cnn", samples=60000)]) == ()


def test_runs_that_were_asked_for_otherwise_are_no_seeds_of_one_another() -> None:
    plain = made(0.8)
    others = [made(0.9, 2, **what) for what in ({"per_round": 3}, {"samples": 9}, {"drops": 0.1})]
    assert len(arms([plain, *others])) == 4
    longer = made(0.9, 2, rounds=(Round(0, (), ()), Round(1, (), ())))
    assert len(arms([plain, longer])) == 2
    assert len(arms_of_any_length([plain, longer])) == 1
    assert names_of([run.asked for run in (plain, others[0])]) == [
        "fedavg(), 0 a round",
        "fedavg(), 3 a round",
    ]


def test_a_seed_that_comes_twice_is_refused() -> None:
    with pytest.raises(LearnError, match=r"seed 1 of fedavg\(\) was given twice"):
        arms([made(0.8), made(0.8)])
