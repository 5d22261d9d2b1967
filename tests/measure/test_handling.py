"""What messages take of a worker's processor: constants that a fit finds again, and their sums."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.measure import MeasureError
from paceline.measure.handling import TICK_NS, UNHANDLED, Handling, Waited, fitted, sending, summing

COSTS = st.floats(1e3, 1e6)
BYTE_COSTS = st.floats(0.1, 10.0)


def measured(true: Handling) -> list:
    """Two and four workers, one message and to all, small and large; sums."""
    found = []
    for workers in (2, 4):
        for messages, size in ((0, 0), (1, 256), (1, 65_536), (workers - 1, 16_384)):
            took = true.told_ns(workers) + 2 * messages * true.carried_ns(size)
            found.append(sending(workers, messages, size, took))
        found += [summing(workers, n, true.summed_ns(workers, n)) for n in (4096, 524_288)]
    return found


@given(st.builds(Handling, COSTS, COSTS, COSTS, BYTE_COSTS, COSTS, COSTS, BYTE_COSTS))
def test_the_constants_that_made_the_measurements_are_found_again(true: Handling) -> None:
    found = fitted(measured(true))
    for one, other in zip(measured(found), measured(true)):
        assert one.cpu_ns == pytest.approx(other.cpu_ns, rel=1e-3)


def test_no_constant_is_below_zero() -> None:
    """Bytes that seem to save time take none, and the others what is measured."""
    falling = [sending(2, 1, size, 1e6 - size) for size in (0, 1000, 2000)]
    found = fitted(falling)
    assert found.byte_ns == 0
    assert found.told_ns(2) + 2 * found.carried_ns(0) == pytest.approx(1e6, rel=0.01)


def test_what_took_nothing_was_not_measured() -> None:
    with pytest.raises(MeasureError, match="no processor time"):
        fitted([sending(2, 1, 100, 0.0)])
    with pytest.raises(MeasureError, match="no processor time"):
        fitted([])


def test_a_worker_alone_hands_nothing_over() -> None:
    whole = Handling(1, 1, 1, 1, 1, 1, 1)
    assert whole.told_ns(1) == whole.summed_ns(1, 1000) == 0
    assert UNHANDLED.told_ns(3) == UNHANDLED.carried_ns(1000) == 0
    assert whole.told_ns(3) == 3
    assert whole.carried_ns(1000) == 1001
    assert whole.summed_ns(2, 1000) == 1 + 1 + 1000


def test_a_stall_is_what_processor_time_does_not_explain_for_each_message() -> None:
    alone = Waited(workers=2, messages=2, wall_ns=3e6, cpu_ns=1e6)
    assert alone.stall_ns(cores=2) == 1e6
    crowded = Waited(workers=4, messages=6, wall_ns=16e6, cpu_ns=2e6)
    assert crowded.stall_ns(cores=2) == pytest.approx(1e6)  # 12 ms, 6 messages, 2 workers a core
    assert Waited(4, 6, 1e6, 2e6).stall_ns(cores=2) == 0


def test_stalls_grow_with_the_workers_of_a_core() -> None:
    found = Handling(stall_ns=1e5)
    assert found.stalled_ns(4, 2.0) == 2e5
    assert found.stalled_ns(2, 16.0) == 1e5
    assert UNHANDLED.stalled_ns(4, 2.0) == 0


def test_messages_that_outlast_a_tick_are_not_stalled() -> None:
    found, tick = Handling(stall_ns=1e5), TICK_NS
    assert found.stalled_ns(4, 2.0, [3 * tick, tick]) == 0
    assert found.stalled_ns(4, 2.0, [tick / 4, 2 * tick]) == pytest.approx(2e5 * 0.75 / 2)
