"""What past runs teach, and when they teach nothing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.history import (
    CorrectionRequest,
    Entry,
    Ground,
    JobTraits,
    Lesson,
    Measured,
    correction,
    lessons,
)

JOB = JobTraits("model", 2, "here")
ASKED = CorrectionRequest(JOB, Ground.SHARED, frozenset())


def lesson(run: str, leans: tuple[float, float], ratio: float, **told: object) -> Lesson:
    made = Lesson(JOB, Ground.SHARED, frozenset(), run, leans, ratio, 0.01)
    return replace(made, **told)


def slow_links(by: float, runs: int = 8, **told: object) -> list[Lesson]:
    """Communication takes so many times as long as predicted, work as long as predicted."""
    shares = [0.1 + 0.8 * at / (runs - 1) for at in range(runs)]
    ratios = [share * math.log(by) for share in shares]
    return [
        lesson(f"run {at}", (1 - share, share), ratio, **told)
        for at, (share, ratio) in enumerate(zip(shares, ratios))
    ]


def test_what_is_slow_is_told_apart_by_what_steps_lean_on() -> None:
    found = correction(slow_links(1.1), ASKED)
    assert found is not None
    assert found.communication == pytest.approx(1.1, abs=0.01)
    assert found.work == pytest.approx(1.0, abs=0.01)
    assert found.rests_on[0].startswith("8 earlier runs of this job, the last: run 5, run 6, run 7")
    assert "left-out runs" in found.rests_on[1]


def test_a_job_that_was_never_measured_with_as_many_workers_is_not_corrected() -> None:
    past = slow_links(1.1)
    assert correction(past, replace(ASKED, job=replace(JOB, world_size=4))) is None
    assert correction(past, replace(ASKED, job=replace(JOB, model="other"))) is None
    assert correction(past, replace(ASKED, job=replace(JOB, machine="there"))) is None
    assert correction(past, replace(ASKED, ground=Ground.CLUSTER)) is None


def test_too_few_runs_teach_nothing_however_many_lessons_they_give() -> None:
    one_run = [replace(each, run="the same") for each in slow_links(1.1)]
    assert correction(one_run, ASKED) is None


def test_errors_without_a_pattern_are_not_corrected() -> None:
    draw = np.random.default_rng(3)
    used = 0
    for _ in range(20):
        past = [lesson(str(at), (0.5, 0.5), draw.normal(0, 0.01)) for at in range(10)]
        found = correction(past, ASKED)
        used += found is not None and abs(math.log(found.work)) > 0.01
    assert used == 0


def test_runs_of_a_busy_machine_teach_little() -> None:
    """Each is off by a tenth or two by chance, whatever its own steps tell of their spread."""
    draw = np.random.default_rng(5)
    for _ in range(20):
        past = [
            lesson(str(at), (share, 1 - share), draw.normal(0.15, 0.1))
            for at, share in enumerate(draw.uniform(0.05, 0.4, 7))
        ]
        found = correction(past, ASKED)
        assert found is None or max(found.work, found.communication) < 1.6


def test_what_is_twice_as_long_as_predicted_was_mistaken() -> None:
    assert correction(slow_links(2.5), ASKED) is None
    believed = correction(slow_links(1.8), ASKED)
    assert believed is not None
    assert believed.communication == pytest.approx(1.8, abs=0.1)


def test_a_correction_that_makes_left_out_runs_worse_is_not_used() -> None:
    """Each run's error is what the others do not have: they pull it to the wrong side."""
    past = [lesson(str(at), (0.5, 0.5), 0.05 * (-1) ** at, noise=1e-4) for at in range(6)]
    assert correction(past, ASKED) is None


def test_a_strategy_that_is_mispriced_is_corrected_where_it_is_in_the_plan() -> None:
    coded = slow_links(1.2, strategies=frozenset({"int8"}))
    plain = [replace(each, run=f"plain {each.run}", ratio=0.0, strategies=frozenset())
             for each in coded]  # fmt: skip
    with_it = correction([*plain, *coded], replace(ASKED, strategies=frozenset({"int8"})))
    without = correction([*plain, *coded], ASKED)
    assert with_it is not None
    assert without is not None
    assert with_it.communication == pytest.approx(1.2, abs=0.03)
    assert without.communication == pytest.approx(1.0, abs=0.02)


def test_one_bad_minute_moves_the_correction_by_less_than_itself() -> None:
    past = [lesson(str(at), (1.0, 0.0), 0.0) for at in range(5)]
    past.append(lesson("bad", (1.0, 0.0), math.log(1.5), noise=0.2))
    found = correction(past, ASKED)
    assert found is None or abs(math.log(found.work)) < 0.05


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-0.5, 0.5)), min_size=3, max_size=8))
def test_a_correction_never_goes_beyond_the_largest_error(told: Sequence[tuple[float, float]]):
    past = [lesson(str(at), (1.0, 0.0), ratio) for at, (_, ratio) in enumerate(told)]
    found = correction(past, ASKED)
    if found is not None:
        assert abs(math.log(found.work)) <= max(abs(one.ratio) for one in past) + 1e-9
        assert found.communication == 1.0


def test_lessons_are_of_the_prediction_without_the_correction_that_was_in_it(
    verdict: Callable[..., Entry],
) -> None:
    (found,) = lessons([verdict()])
    inside = 0.4 * math.log(1.1) + 0.6 * math.log(0.9)
    assert found.ratio == pytest.approx(math.log(1.1) + inside)
    assert found.strategies == {"bf16", "buckets"}


def test_what_was_not_measured_or_has_no_model_teaches_nothing(
    verdict: Callable[..., Entry],
) -> None:
    nothing = [
        verdict(measured=None),
        verdict(predicted=None),
        verdict(job=JobTraits("", 2, "here")),
        verdict(measured=Measured(0, 0, 0, 0)),
    ]
    assert lessons(nothing) == []
