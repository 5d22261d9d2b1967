"""Gain or chance: on steps that resemble their neighbours, with bursts, and on recorded ones."""

import json
from collections.abc import Callable
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.trial import Side, Timetable, gain_of, steps_needed
from paceline.trial.blocks import in_turn, steps_of
from paceline.trial.losses import LossCheck
from paceline.trial.outcome import Finding, finding_of
from paceline.trial.series import Sample, SeenStep, Series, samples_of
from paceline.trial.significance import Gain

Steps = Callable[[int, np.random.Generator], np.ndarray]
HELD = LossCheck(True, "")


def wavering(alike: float, bursts: float = 0.0) -> Steps:
    """Logarithms of steps that vary by 3 %, each like the one before; some are hit by a burst."""

    def drawn(count: int, draw: np.random.Generator) -> np.ndarray:
        found, now = np.zeros(count), 0.0
        for at, push in enumerate(draw.normal(size=count) * 0.03 * np.sqrt(1 - alike**2)):
            now = alike * now + push
            found[at] = now
        for at in np.flatnonzero(draw.random(count) < bursts):
            found[at : at + draw.integers(3, 12)] += 0.3
        return found

    return drawn


def tried(steps: Steps, gain: float, seed: int, a_side: int = 200) -> Gain:
    """A trial of steps drawn so, of which those under the plan are that much faster."""
    blocks = in_turn(Timetable(a_side=a_side, seed=seed))
    drawn = iter(1e8 * np.exp(steps(steps_of(blocks), np.random.default_rng(seed))))
    seen = [
        (place, past >= block.warm, next(drawn) / (1 + gain * (block.side is Side.PLAN)))
        for place, block in enumerate(blocks)
        for past in range(block.warm + block.steps)
    ]
    series = Series(blocks, tuple(SeenStep(i, v, v, b, c) for i, (b, c, v) in enumerate(seen)))
    found = gain_of(samples_of(series), 10, seed)
    assert found is not None
    return found


def accepted(steps: Steps, gain: float, trials: int) -> float:
    verdicts = [finding_of(tried(steps, gain, seed), HELD)[0] for seed in range(trials)]
    return sum(v is Finding.FASTER for v in verdicts) / trials


@pytest.mark.parametrize("steps", [wavering(0.0), wavering(0.8), wavering(0.7, bursts=0.004)])
def test_a_job_tuned_against_itself_is_left_alone_and_a_gain_of_three_percent_is_seen(
    steps: Steps,
) -> None:
    assert accepted(steps, 0.0, 40) <= 0.05
    assert accepted(steps, 0.03, 40) >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "power"), [(wavering(0.8), 0.9), (wavering(0.7, bursts=0.004), 0.85)]
)
def test_of_a_thousand_pairs_at_most_one_in_twenty_is_accepted_by_chance(
    steps: Steps, power: float
) -> None:
    """The steps with bursts vary by 5.6 % in all, nearly twice the gain."""
    assert accepted(steps, 0.0, 1000) <= 0.05
    assert accepted(steps, 0.03, 300) >= power


def test_the_interval_holds_the_true_gain() -> None:
    found = [tried(wavering(0.8), 0.1, seed) for seed in range(60)]
    assert sum(one.low <= 0.1 <= one.high for one in found) >= 54
    assert all(one.low <= one.gain <= one.high for one in found)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.5, 3.0), st.integers(0, 1000))
def test_a_plan_that_makes_every_step_that_much_faster_is_measured_so(
    times: float, seed: int
) -> None:
    still = tried(lambda count, _: np.zeros(count), times - 1, seed, a_side=60)
    assert still.times == pytest.approx(times)
    assert still.itself == pytest.approx(0.0, abs=1e-9)


def test_a_burst_on_half_a_round_is_not_taken_for_a_gain() -> None:
    row = [Sample(r, s, log(1e8)) for r in range(5) for s in (*Side, Side.PLAN)]
    hit = [Sample(0, Side.AGAIN, log(5e8)), *row[:1], *row[2:]]
    found = gain_of(hit)
    assert found is not None
    assert found.chance > 0.05
    assert found.gain < 0.05


def test_a_slower_plan_is_called_slower_and_one_that_brings_nothing_no_gain() -> None:
    quiet = lambda count, draw: draw.normal(size=count) * 0.005  # noqa: E731
    assert finding_of(tried(quiet, -0.2, 1), HELD)[0] is Finding.SLOWER
    assert finding_of(tried(quiet, 0.0, 1), HELD)[0] is Finding.NO_GAIN
    noisy = wavering(0.95)
    assert finding_of(tried(noisy, 0.0, 1, a_side=60), HELD)[0] is Finding.INCONCLUSIVE


def test_a_gain_with_another_loss_is_none() -> None:
    found, cause = finding_of(tried(wavering(0.0), 0.5, 1), LossCheck(False, "the loss doubled"))
    assert found is Finding.LOSS_OFF
    assert cause == "the loss doubled"


def test_smaller_gains_and_noisier_steps_need_more_steps() -> None:
    assert steps_needed(0.03, 0.03) < 30
    assert steps_needed(0.01, 0.03) > 5 * steps_needed(0.03, 0.03)
    assert steps_needed(0.03, 0.06) > 3 * steps_needed(0.03, 0.03)


RECORDED = Path(__file__).parents[2] / "benchmarks" / "results" / "retarget-cells.json"


def test_of_steps_recorded_on_a_real_machine_few_pairs_are_accepted_by_chance() -> None:
    """Steps of real jobs, drawn again in stretches, so that neighbours stay neighbours."""
    runs = [
        [log(step / np.median(run["steps_ms"])) for step in run["steps_ms"]]
        for cell in json.loads(RECORDED.read_text()).values()
        for run in cell
        if len(run["steps_ms"]) >= 12
    ]
    assert len(runs) >= 10

    def again(count: int, draw: np.random.Generator) -> np.ndarray:
        run = runs[draw.integers(len(runs))]
        starts = draw.integers(len(run) - 6, size=count // 6 + 1)
        return np.concatenate([run[at : at + 6] for at in starts])[:count]

    assert accepted(again, 0.0, 100) <= 0.05
