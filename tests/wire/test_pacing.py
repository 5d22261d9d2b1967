"""A sender's rate: it sleeps between packets, slows down for marks and losses, and comes back."""

from typing import Any

import pytest

from paceline.wire.settings import core

pytestmark = pytest.mark.needs("native")

FRAME = 1250  # 10,000 bits: a millisecond at 10 Mbit/s


def left(pacer: Any, sent: int, until_us: int, *, arrives: bool = True) -> int:
    """How many packets leave in this time; `sent` are under way already, and count. Those that
    leave arrive at once, or are under way too."""
    count = 0
    for now_us in range(0, until_us, 100):
        while pacer.may_send(FRAME, sent if arrives else sent + count, now_us * 1000):
            pacer.sent(FRAME)
            count += 1
    return count


def test_while_the_window_is_open_packets_leave_a_quarter_above_the_share() -> None:
    assert left(core().WirePacer(10e6), 0, 100_000) in (124, 125)


def test_while_it_is_closed_none_leaves() -> None:
    pacer = core().WirePacer(10e6)
    assert left(pacer, pacer.window, 5_000) == 0


def test_who_was_late_catches_up_with_a_window_at_most() -> None:
    pacer = core().WirePacer(10e6)
    pacer.may_send(FRAME, 0, 0)
    sent = 0
    while pacer.may_send(FRAME, 0, 50_000_000):
        pacer.sent(FRAME)
        sent += 1
    assert sent == pacer.window


def under_way(pacer: Any, until_us: int) -> int:
    """How many packets leave in this time while nothing of them is reported."""
    return left(pacer, 0, until_us, arrives=False)


def test_a_queue_that_stands_still_is_sent_a_window_and_a_packet_now_and_then() -> None:
    for until_ms, asked in ((5, 0), (7, 1), (17, 2), (37, 3), (75, 3)):
        pacer = core().WirePacer(100e6)
        assert under_way(pacer, 1000 * until_ms) == pacer.window + asked


def test_after_long_silence_all_that_is_under_way_counts_as_lost() -> None:
    pacer = core().WirePacer(100e6)
    assert under_way(pacer, 78_000) == 2 * pacer.window + 3


def test_a_report_opens_the_window() -> None:
    pacer = core().WirePacer(10e6)
    window = pacer.window
    assert left(pacer, window, 4_000) == 0
    assert not pacer.may_send(FRAME, window, 4_000_000)
    pacer.report(window - 1, window, 0, 3_900_000)
    assert pacer.may_send(FRAME, window, 4_000_000)


def test_the_report_of_a_packet_sent_into_silence_opens_the_whole_window() -> None:
    pacer = core().WirePacer(10e6)
    sent = under_way(pacer, 20_000)
    pacer.report(sent - 1, 1, 0, 20_000_000)  # all others were lost
    later = 40_000_000
    for more in range(pacer.window):
        assert pacer.may_send(FRAME, sent + more, later)
        pacer.sent(FRAME)
    assert not pacer.may_send(FRAME, sent + pacer.window, later)


def test_packets_that_others_overtook_are_not_taken_for_lost() -> None:
    pacer = core().WirePacer(10e6)
    for window in range(1, 40):
        late = 2 * (window % 2)  # packets on the longer path, which come with the next window
        pacer.report(window * 8 - 1, window * 8 - late, 0, window)
    assert pacer.bits_per_s == 10e6


@pytest.mark.parametrize("trouble", ["marked", "lost"])
def test_marks_and_losses_lower_the_rate_and_calm_raises_it_again(trouble: str) -> None:
    pacer = core().WirePacer(10e6)
    came = marked = 0
    for window in range(1, 20):
        came += 8 if trouble == "marked" else 4
        marked += 8 if trouble == "marked" else 0
        pacer.report(window * 8 - 1, came, marked, window)
    slowed = pacer.bits_per_s
    assert slowed < 5e6
    for window in range(20, 120):
        came += 8
        pacer.report(window * 8 - 1, came, marked, window)
    assert pacer.bits_per_s == 10e6
