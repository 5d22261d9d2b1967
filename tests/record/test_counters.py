"""What a rank reads of its machine between steps."""

import threading
import time
from functools import partial

import pytest

from paceline.machine import PulseTaker, thread_clock
from paceline.record.counters import BORDER_NS, Affordable, CountDetail, Counters, counts_of
from paceline.record.held import MOST, HeldSteps
from paceline.record.sidecar import CoreTime, Counts, Mode, Step


def counted(told: CountDetail) -> tuple[Counts, list[CoreTime]]:
    """A step with one border between phases, of two milliseconds behind it."""
    counters = Counters(pulses=None)
    counters.begin(told)
    counters.mark()
    worked = time.thread_time_ns() + 2_000_000
    while time.thread_time_ns() < worked:
        pass
    counters.mark()
    found = counts_of(counters.end())
    counters.close()
    return found, counters.times()


def test_a_step_of_phases_tells_what_the_thread_got_in_each() -> None:
    if thread_clock(threading.get_native_id()) is None:
        pytest.skip("this kernel keeps no schedstat")
    before, middle, after = counted(CountDetail.PHASES)[1]
    assert before.end_ns == middle.begin_ns
    assert middle.end_ns == after.begin_ns
    assert middle.run_ns >= 2_000_000 > before.run_ns
    assert middle.delay_ns <= middle.end_ns - middle.begin_ns


def test_a_step_without_phases_tells_nothing_of_the_training_threads_own() -> None:
    assert counted(CountDetail.THREADS)[1] == []


def test_the_counts_of_a_step_hold_its_work_and_its_waiting() -> None:
    found, _ = counted(CountDetail.STEP)
    if found.run_ns is None:
        pytest.skip("this kernel keeps no schedstat")
    assert found.run_ns > 2_000_000
    assert found.delay_ns is not None
    assert found.delay_ns >= 0
    assert (found.jumped_ns, found.slept_ns) == (0, 0)


def test_another_threads_mark_is_no_border_of_the_training_threads_phases() -> None:
    counters = Counters(pulses=None)
    counters.begin(CountDetail.PHASES)
    other = threading.Thread(target=counters.mark)
    other.start()
    other.join()
    counters.end()
    assert len(counters.times()) <= 1  # the whole step


def test_phases_are_read_only_in_steps_that_are_long_enough_for_it() -> None:
    step = Affordable()
    for lasted_ns, may in ((1, True), (100 * BORDER_NS, False), (4000 * BORDER_NS, False)):
        step.begin(counted=True)
        assert [step.mark() for _ in range(3)] == [may] * 3
        step.end(lasted_ns)
    step.begin(counted=False)
    step.end(1)
    assert step.mark()


def test_a_rank_that_takes_no_pulse_has_none_and_another_takes_it_seldom() -> None:
    assert Counters(pulses=None).begin(CountDetail.STEP) is None
    taking = Counters(pulses=PulseTaker(share=1e-6))
    assert taking.begin(CountDetail.STEP) is not None
    assert taking.begin(CountDetail.STEP) is None


def test_times_are_told_once() -> None:
    if thread_clock(threading.get_native_id()) is None:
        pytest.skip("this kernel keeps no schedstat")
    counters = Counters(pulses=None)
    for _ in range(2):
        counters.begin(CountDetail.PHASES)
        counters.end()
    assert len(counters.times()) == 2
    assert counters.times() == []


def test_lines_of_steps_are_written_together_and_none_is_lost() -> None:
    written: list[list[int]] = []
    held = HeldSteps(lambda *steps: written.append([step.index for step in steps]))  # type: ignore[attr-defined]
    counters = Counters(pulses=None)
    for index in range(MOST + 2):
        counters.begin(CountDetail.STEP)
        held.hold(partial(Step, index, 0, 1, Mode.PLAIN), counters.end())
    held.write()
    held.write()
    assert written == [list(range(MOST)), [MOST, MOST + 1]]
