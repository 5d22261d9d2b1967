"""What a receiver takes for lost: what later packets overtook, after silence in which it looked."""

import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_ranks import DATA, HERE, JOB, QUICK, Relay

from paceline.wire import Address, Endpoint, Orders, Send, TransferPhase
from paceline.wire.settings import core

pytestmark = pytest.mark.needs("native", "linux")

PACKETS, SIZE, MS = 10, 1000, 1_000_000
BUDGET = 5 * SIZE


class Receiver:
    """Of one tensor, whose packet n has the number n, with a clock that the test turns."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.core: Any = core().WireReceiving(PACKETS, SIZE, budget)
        self.now = 0
        self.core.looks(0)

    def hears(self, *packets: int) -> None:
        for packet in packets:
            self.core.take(packet, packet)

    def waits(self, ms: float, held_up_ms: float = 0.0) -> None:
        """It means to look again after `ms`, and could not for so much longer."""
        self.core.sleeps(self.now + round(ms * MS))
        self.now += round((ms + held_up_ms) * MS)
        self.core.looks(self.now)

    @property
    def stops(self) -> bool:
        return bool(self.core.enough)


def test_what_later_packets_overtook_is_lost_a_millisecond_after_done() -> None:
    receiver = Receiver()
    receiver.hears(*range(3), *range(5, PACKETS))
    receiver.core.done(PACKETS, 0)
    receiver.waits(0.9)
    assert not receiver.stops
    receiver.waits(0.2)
    assert receiver.stops


def test_a_done_that_overtakes_the_last_packets_is_no_sign_of_a_loss() -> None:
    receiver = Receiver()
    receiver.hears(*range(7))
    receiver.core.done(PACKETS, 0)
    receiver.waits(1000)
    assert not receiver.stops
    assert receiver.core.owes_answer
    receiver.hears(7, 8, 9)
    assert receiver.stops


def test_last_packets_are_lost_once_they_were_asked_for_and_did_not_come_again() -> None:
    receiver = Receiver()
    receiver.hears(*range(7))
    receiver.core.done(PACKETS, 0)
    receiver.waits(2)
    receiver.core.answered()
    receiver.waits(1000)
    assert not receiver.stops
    receiver.core.done(PACKETS + 3, 1)
    assert not receiver.stops
    receiver.waits(2)
    assert receiver.stops


def test_last_packets_are_lost_where_one_of_another_tensor_overtook_them() -> None:
    receiver = Receiver()
    receiver.hears(*range(7))
    receiver.core.done(PACKETS, 0)
    receiver.core.take(PACKETS + 1, PACKETS)  # no packet of this tensor, but of its sender
    receiver.waits(2)
    assert receiver.stops


def test_time_without_a_core_is_no_silence() -> None:
    receiver = Receiver()
    receiver.hears(*range(3), *range(5, PACKETS))
    receiver.core.done(PACKETS, 0)
    receiver.waits(0.1, held_up_ms=50)
    assert not receiver.stops
    receiver.waits(1)
    assert receiver.stops


def test_nor_is_time_after_which_packets_wait_in_the_socket() -> None:
    receiver = Receiver()
    receiver.hears(*range(3), *range(5, PACKETS))
    receiver.core.done(PACKETS, 0)
    receiver.waits(2)
    receiver.core.left_some()
    assert not receiver.stops
    receiver.waits(1)
    assert receiver.stops


def test_a_gap_of_twenty_milliseconds_of_looking_ends_what_nobody_ended() -> None:
    receiver = Receiver()
    receiver.hears(*range(3), *range(5, PACKETS))
    receiver.waits(5, held_up_ms=100)
    receiver.waits(14)
    assert not receiver.stops
    receiver.waits(1)
    assert receiver.stops


def test_above_the_budget_nothing_is_done_without() -> None:
    receiver = Receiver(budget=SIZE)
    receiver.hears(*range(3), *range(5, PACKETS))
    receiver.core.done(PACKETS, 0)
    receiver.waits(1000)
    assert not receiver.stops
    receiver.core.answered()
    receiver.core.take(3, PACKETS)
    assert receiver.stops


@given(st.permutations(range(PACKETS)), st.integers(0, PACKETS - 1), st.floats(0, 100))
def test_packets_in_any_order_are_never_lost_while_the_newest_is_on_its_way(
    order: list[int], came: int, ms: float
) -> None:
    receiver = Receiver(budget=PACKETS * SIZE)
    heard = [packet for packet in order[:came] if packet != PACKETS - 1]
    receiver.hears(*heard)
    receiver.core.done(PACKETS, 0)
    receiver.waits(ms)
    assert not receiver.stops


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255)), max_size=20))
def test_no_word_of_a_sender_that_is_done_spends_more_than_the_budget(
    words: list[tuple[int, int]],
) -> None:
    receiver = Receiver(budget=SIZE)
    receiver.hears(0, 2, 4)
    for end, again in words:
        receiver.core.done(end, again)
        receiver.waits(100)
        receiver.core.answered()
        assert not receiver.stops
    receiver.hears(*range(PACKETS))
    assert receiver.stops


RECEIVER = """
import sys
import numpy as np
from wire_ranks import *
from paceline.wire import *
with Endpoint(1, JOB, HERE, QUICK) as end:
    print(end.address.port, flush=True)
    end.connect({0: Address("127.0.0.1", int(sys.argv[1]))}, 20)
    room = np.zeros(100_000, np.float32)
    (came,) = end.exchange(Orders(1, TransferPhase.PUSH, [], [Receive(0, room, budget=0.5)]))
    print(came.missing_bytes, int(room.sum()), flush=True)
    input()
"""


@pytest.mark.live
def test_a_receiver_that_stands_still_in_the_middle_loses_nothing() -> None:
    """Stopped at the fiftieth packet, until its sender has asked into the silence three times."""
    here = os.path.dirname(__file__)
    with Endpoint(0, JOB, HERE, QUICK) as mine:
        peer = subprocess.Popen(
            [sys.executable, "-c", RECEIVER, str(mine.address.port)],
            env={**os.environ, "PYTHONPATH": here},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert peer.stdout is not None
        seen: list[int] = []
        window = QUICK.window_bytes // QUICK.frame_bytes(QUICK.packet_bytes)

        def watch(header: dict[str, int]) -> bool:
            if header["kind"] == DATA:
                seen.append(header["sequence"])
                if len(seen) == 50:
                    os.kill(peer.pid, signal.SIGSTOP)
                if len(seen) == 50 + window + 3:
                    os.kill(peer.pid, signal.SIGCONT)
            return False

        relay: Relay | None = None
        try:
            relay = Relay(Address("127.0.0.1", int(peer.stdout.readline())), watch)
            mine.connect({1: relay.address}, 20)
            values = np.ones(100_000, np.float32)
            mine.exchange(Orders(1, TransferPhase.PUSH, [Send(1, values)], []))
            assert peer.stdout.readline().split() == ["0", "100000"]
            assert len(seen) == 280
        finally:
            peer.kill()
            peer.communicate()
            if relay:
                relay.close()
