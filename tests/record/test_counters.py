"""What a rank reads of its machine between steps."""

import threading
import time

import pytest

from paceline.machine import PulseTaker, thread_clock
from paceline.record.counters import Counters, Told
from paceline.record.sidecar import CoreTime, Pulsed, Record


def counted(told: Told, pulses: PulseTaker | None = None) -> tuple[list[Record], Counters]:
    written: list[Record] = []
    counters = Counters(written.append, pulses=pulses)
    counters.begin()
    counters.mark()
    worked = time.thread_time_ns() + 2_000_000
    while time.thread_time_ns() < worked:
        pass
    counters.mark()
    counters.end(told)
    return written, counters


def test_a_step_of_phases_tells_what_the_thread_got_in_each() -> None:
    if thread_clock(threading.get_native_id()) is None:
        pytest.skip("this kernel keeps no schedstat")
    written, _ = counted(Told.PHASES)
    before, after = (record for record in written if isinstance(record, CoreTime))
    assert before.end_ns == after.begin_ns
    assert after.run_ns >= 2_000_000 > before.run_ns
    assert after.delay_ns <= after.end_ns - after.begin_ns


def test_a_step_without_phases_writes_nothing_of_the_training_thread() -> None:
    written, _ = counted(Told.THREADS)
    assert written == []


def test_the_counts_of_a_step_hold_its_work_and_its_waiting() -> None:
    counters = Counters(lambda record: None, pulses=None)
    counters.begin()
    counters.mark()
    found = counters.end(Told.STEP)
    counters.close()
    if found.run_ns is None:
        pytest.skip("this kernel keeps no schedstat")
    assert found.run_ns > 0
    assert found.delay_ns is not None
    assert found.delay_ns >= 0
    assert (found.jumped_ns, found.slept_ns) == (0, 0)


def test_another_threads_mark_is_no_border_of_the_training_threads_phases() -> None:
    written: list[Record] = []
    counters = Counters(written.append, pulses=None)
    counters.begin()
    other = threading.Thread(target=counters.mark)
    other.start()
    other.join()
    counters.end(Told.PHASES)
    assert written == []


def test_only_the_rank_that_is_given_a_pulse_writes_it_and_seldom() -> None:
    written, counters = counted(Told.STEP, PulseTaker(share=1e-6))
    counters.begin()
    assert [type(record) for record in written] == [Pulsed]
