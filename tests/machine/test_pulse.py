"""The pulse, and what follows from how the machine varies."""

from itertools import pairwise

import pytest

from paceline.machine import Moved, Pulse, Rhythm, at_pulse, observe, steadiness, take_pulse
from paceline.machine.pulse import PulseTaker, typical_pulse
from paceline.machine.steadiness import Observed, deviation, steps_for, windows

MS = 1_000_000
PULSE = Pulse(moment_ns=0, arithmetic_ns=100, memory_ns=200, wakeup_ns=50)


def seen(*lengths_ns: int) -> Observed:
    return Observed(lengths_ns, None, None, 0, Moved(0, 0), None)


def test_a_pulse_measures_arithmetic_memory_and_a_wake_up() -> None:
    found = take_pulse()
    assert min(found.moment_ns, found.arithmetic_ns, found.memory_ns, found.wakeup_ns) > 0


def test_a_pulse_is_not_due_again_until_its_share_allows() -> None:
    taker = PulseTaker(share=1e-6)
    assert taker.take() is not None
    assert taker.take() is None


def test_what_costs_nothing_is_always_due() -> None:
    rhythm = Rhythm(share=1e9)
    assert [rhythm.run(lambda: 1) for _ in range(3)] == [1, 1, 1]


def test_a_typical_pulse_is_the_median_of_each_part() -> None:
    others = [Pulse(1, 300, 200, 50), Pulse(2, 110, 900, 60)]
    assert typical_pulse([PULSE, *others]) == Pulse(1, 110, 200, 50)
    assert typical_pulse([]) is None


def test_a_duration_brought_to_its_own_pulse_stays_what_it_is() -> None:
    found = at_pulse(1000, PULSE, PULSE)
    assert (found.least_ns, found.ns, found.most_ns) == (1000, 1000, 1000)


def test_slower_arithmetic_is_slower_work() -> None:
    slower = Pulse(9, arithmetic_ns=200, memory_ns=400, wakeup_ns=50)
    found = at_pulse(1000, PULSE, slower)
    assert (found.least_ns, found.ns, found.most_ns) == (2000, 2000, 2000)


def test_slower_memory_makes_work_longer_by_its_share_and_less_certain() -> None:
    found = at_pulse(1000, PULSE, Pulse(9, 100, 1200, 50), memory_share=0.1)
    assert (found.least_ns, found.ns, found.most_ns) == (1000, 1500, 3000)
    faster = at_pulse(1000, PULSE, Pulse(9, 100, 100, 50), memory_share=0.5)
    assert (faster.least_ns, faster.ns, faster.most_ns) == (500, 750, 1000)


def test_a_pulse_that_tells_nothing_changes_nothing() -> None:
    assert at_pulse(1000, PULSE, Pulse(0, 0, 0, 0)).ns == 1000


def test_a_machine_that_never_varies_can_measure_everything() -> None:
    found = steadiness(seen(*[MS] * 20_000))
    assert (found.at_1ms, found.at_100ms, found.at_10s) == (0.0, 0.0, 0.0)
    assert all(row.measurable for row in found.trust)
    assert found.steps_for_gain == 5


def test_a_machine_that_drifts_between_blocks_cannot_check_a_prediction_later() -> None:
    found = steadiness(seen(*[MS] * 10_000, *[round(1.2 * MS)] * 10_000))
    assert found.at_10s == pytest.approx(0.09, abs=0.01)
    assert not found.trust[-1].measurable


def test_a_short_look_says_nothing_about_ten_seconds() -> None:
    found = steadiness(seen(*[MS] * 3_000))
    assert found.at_10s is None
    assert len(found.trust) == 3


def test_noise_of_single_pieces_averages_out_over_longer_windows() -> None:
    lengths = [MS if i % 2 else 2 * MS for i in range(2000)]
    assert deviation(windows(lengths, MS)) > 10 * deviation(windows(lengths, 100 * MS))


def test_more_noise_asks_for_more_steps() -> None:
    counts = [steps_for(0.03, noise) for noise in (0.02, 0.05, 0.1, 0.2)]
    assert all(more > fewer for fewer, more in pairwise(counts))
    assert steps_for(0.03, 0.05) == 44


def test_an_observed_machine_has_lengths_and_a_pulse() -> None:
    found = observe(0.05)
    assert len(found.lengths_ns) >= 1
    assert found.pulse is not None
