"""What a rank reads of its machine between steps."""

import threading
import time

import pytest

from paceline.machine import PulseTaker, thread_clock
from paceline.record.counters import CountDetail, Counters
from paceline.record.sidecar import CoreTime, Counts


def counted(told: CountDetail) -> tuple[Counts, list[CoreTime]]:
    """A step with one border between phases, of two milliseconds behind it."""
    counters = Counters(pulses=None)
    counters.begin(told)
    counters.mark()
    worked = time.thread_time_ns() + 2_000_000
    while time.thread_time_ns() < worked:
        pass
    counters.mark()
    found = counters.end()
    counters.close()
    return found, counters.times()


def test_a_step_of_phases_tells_what_the_thread_got_in_each() -> None:
    if thread_clock(threading.get_native_id()) is None:
        pytest.skip("this kernel keeps no schedstat")
    before, after = counted(CountDetail.PHASES)[1]
    assert before.end_ns == after.begin_ns
    assert after.run_ns >= 2_000_000 > before.run_ns
    assert after.delay_ns <= after.end_ns - after.begin_ns


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
    assert counters.times() == []


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
        counters.mark()
        counters.end()
    assert len(counters.times()) == 2
    assert counters.times() == []
