"""A sender's rate: it sleeps between packets, slows down for marks and losses, and comes back."""

import pytest

from paceline.wire.settings import core

pytestmark = pytest.mark.needs("native")

FRAME = 1250  # 10,000 bits: a millisecond at 10 Mbit/s


def test_packets_leave_at_the_rate() -> None:
    pacer = core().WirePacer(10e6)
    left = 0
    for now_us in range(0, 100_000, 100):
        if pacer.may_send(FRAME, 0, now_us * 1000):
            pacer.sent(FRAME, now_us * 1000)
            left += 1
    assert left in (99, 100)


def test_who_was_late_catches_up_with_four_packets_at_most() -> None:
    pacer = core().WirePacer(10e6)
    pacer.may_send(FRAME, 0, 0)
    sent = 0
    while pacer.may_send(FRAME, 0, 50_000_000):
        pacer.sent(FRAME, 50_000_000)
        sent += 1
    assert sent == 4


def test_a_full_window_waits_for_a_report() -> None:
    pacer = core().WirePacer(10e6)
    window = pacer.window
    assert not pacer.may_send(FRAME, window, 5_000_000)
    pacer.report(window - 1, window, 0, 5_000_000)
    assert pacer.may_send(FRAME, window, 5_000_000)


def test_a_window_whose_reports_were_lost_opens_again() -> None:
    pacer = core().WirePacer(10e6)
    assert pacer.may_send(FRAME, pacer.window, 3_600_000_000_000)


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
