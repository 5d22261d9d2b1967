"""The user-space switch: datagrams find their way, and rounds are aggregated through it."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.wire.aggregate import (
    Blocks,
    Integer,
    Mode,
    RoundRequest,
    Sketched,
    SwitchOp,
    dense,
    through,
    together,
)
from paceline.wire.errors import WireError
from paceline.wire.switch import Code, Rule, Verdict, tos
from paceline.wire.switch.aggregation import (
    Aggregator,
    Chunk,
    ChunkPlace,
    Fault,
    Refused,
    packed,
    unpacked,
)
from paceline.wire.switch.client import Member, Pace, SwitchClient
from paceline.wire.switch.relay import Relay, SwitchJob

KEY = b"a key of the job"
FAST = Rule.graded(bits_per_s=10**9, buffer_bytes=1_000_000)
SECOND_NS = 10**9


def bound() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.settimeout(20)
    return made


@contextmanager
def standing(
    peers: list[socket.socket], rule: Rule, job: SwitchJob | None = None
) -> Iterator[Relay]:
    """A relay that forwards in a thread of its own."""
    with Relay([p.getsockname() for p in peers], rule, job) as relay:
        done = threading.Event()

        def forward() -> None:
            while not done.is_set():
                relay.step(0.02)

        thread = threading.Thread(target=forward)
        thread.start()
        try:
            yield relay
        finally:
            done.set()
            thread.join()
            for peer in peers:
                peer.close()


def stepped(relay: Relay, enough: Callable[[], bool]) -> None:
    """Forward until enough has happened."""
    end = time.monotonic_ns() + 20 * SECOND_NS
    while not enough():
        assert time.monotonic_ns() < end
        relay.step(0.01)


def test_what_a_peer_sends_arrives_from_where_an_answer_finds_back() -> None:
    a, b = bound(), bound()
    with standing([a, b], FAST) as relay:
        a.sendto(b"question", relay.addresses[1])
        question, sender = b.recvfrom(100)
        assert (question, sender) == (b"question", relay.addresses[0])
        b.sendto(b"answer", sender)
        assert a.recvfrom(100) == (b"answer", relay.addresses[1])


def test_important_datagrams_come_first_and_are_not_lost() -> None:
    a, b = bound(), bound()
    rule = Rule.graded(bits_per_s=1_000_000, buffer_bytes=20_000)
    first, last = tos(Code(1, 7), markable=False), tos(Code(5, 0), markable=False)
    with Relay([a.getsockname(), b.getsockname()], rule) as relay:
        for byte, letter in ((last, b"l"), (first, b"f")):
            a.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, byte)
            for _ in range(10):
                a.sendto(letter * 1_000, relay.addresses[1])
        stepped(relay, lambda: sum(relay.verdicts.values()) == 20)
        stepped(relay, lambda: not relay.queues[1].backlog_bytes)
    got = [b.recv(2_000)[:1] for _ in range(relay.verdicts.total() - _dropped(relay))]
    assert got.count(b"f") == 10
    assert 1 <= got.count(b"l") < 10
    assert relay.verdicts[last >> 2, Verdict.DROP] == _dropped(relay)
    a.close()
    b.close()


def test_a_stranger_is_counted_and_not_forwarded() -> None:
    a, b, stranger = bound(), bound(), bound()
    with Relay([a.getsockname(), b.getsockname()], FAST) as relay:
        stranger.sendto(b"hello", relay.addresses[1])
        stepped(relay, lambda: relay.strangers == 1)
        assert not relay.verdicts
    for one in (a, b, stranger):
        one.close()


@pytest.mark.parametrize(
    "mode",
    [dense, Integer(3), Blocks(64), Sketched(3, 0.3, width=64)],
    ids=["dense", "integer", "blocks", "sketched"],
)
def test_a_mode_through_the_switch_gives_what_it_gives_in_one_process(mode: Mode) -> None:
    random = np.random.default_rng(1)
    gradients = [
        (random.normal(size=20_000) * (random.random(20_000) < 0.02)).astype(np.float32)
        for _ in range(3)
    ]
    found = exchanged(mode, gradients)
    assert all(np.array_equal(a, b) for a, b in zip(found, together(mode, gradients)))


def test_what_is_lost_on_the_way_is_sent_again() -> None:
    gradients = [np.full(30_000, worker, np.float32) for worker in range(2)]
    narrow = Rule.graded(bits_per_s=200_000_000, buffer_bytes=9_000)  # drops of 64 chunks most
    found = exchanged(dense, gradients, narrow)
    assert all(np.array_equal(one, np.ones(30_000)) for one in found)


def exchanged(mode: Mode, gradients: list[np.ndarray], rule: Rule = FAST) -> list[np.ndarray]:  # type: ignore[type-arg]
    """What each worker, in a thread of its own, gets through a switch."""
    workers = len(gradients)
    peers = [bound() for _ in gradients]
    found: list[np.ndarray] = [np.empty(0)] * workers  # type: ignore[type-arg]
    with standing(peers, rule, SwitchJob(7, workers, KEY)) as relay:

        def work(worker: int) -> None:
            member = Member(7, worker, workers, KEY)
            client = SwitchClient(peers[worker], relay.addresses[-1], member)
            found[worker] = through(client, mode(gradients[worker]))

        threads = [threading.Thread(target=work, args=(w,)) for w in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert relay.aggregator is not None
        assert not relay.aggregator.faults
    return found


def chunk(worker: int, turn: int = 1, values: tuple[int, ...] = (1, 2)) -> Chunk:
    return Chunk(ChunkPlace(7, turn, 0), SwitchOp.SUM, worker, 2, np.array(values, np.int32))


def test_a_chunk_that_comes_twice_is_added_once_and_answered_again() -> None:
    switch = Aggregator(7, 2, KEY)
    assert switch.receive(packed(chunk(0), KEY)) == switch.receive(packed(chunk(0), KEY)) == []
    (first, answer), (second, _) = switch.receive(packed(chunk(1), KEY))
    assert (first, second) == (0, 1)
    assert unpacked(answer, 7, KEY).values.tolist() == [2, 4]
    assert switch.receive(packed(chunk(1), KEY)) == [(1, answer)]


def test_foreign_forged_and_malformed_datagrams_are_counted_and_change_nothing() -> None:
    switch, good = Aggregator(7, 2, KEY), packed(chunk(0), KEY)
    other_job = packed(Chunk(ChunkPlace(8, 1, 0), SwitchOp.SUM, 0, 2, np.zeros(1, np.int32)), KEY)
    for wrong in (b"", b"x" * 60, other_job):
        assert switch.receive(wrong) == []
    for forged in (packed(chunk(0), b"another key"), good[:-1], good[:-1] + b"!"):
        assert switch.receive(forged) == []
    for malformed in (
        chunk(0, turn=99),
        Chunk(ChunkPlace(7, 1, 0), SwitchOp.SUM, 1, 3, chunk(0).values),
    ):
        assert switch.receive(packed(malformed, KEY)) == []
    assert switch.faults == {Fault.FOREIGN: 3, Fault.FORGED: 3, Fault.MALFORMED: 2}
    assert switch.receive(good) == []
    assert unpacked(switch.receive(packed(chunk(1), KEY))[0][1], 7, KEY).values.tolist() == [2, 4]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 60), st.integers(1, 255))
def test_no_datagram_but_the_jobs_own_is_read(noise: bytes, place: int, bits: int) -> None:
    with pytest.raises(Refused):
        unpacked(b"PLAG" + noise, 7, KEY)
    changed = bytearray(packed(chunk(0), KEY))
    changed[place % len(changed)] ^= bits
    with pytest.raises(Refused):
        unpacked(bytes(changed), 7, KEY)


def test_a_worker_without_a_switch_ends_with_an_error() -> None:
    here, nobody = bound(), bound()
    pace = Pace(again_s=0.01, timeout_s=0.05)
    client = SwitchClient(here, nobody.getsockname(), Member(7, 0, 2, KEY), pace)
    with pytest.raises(WireError, match="has answered nothing"):
        client(RoundRequest(SwitchOp.SUM, np.zeros(4, np.int32)))
    assert client.repeated > 0
    here.close()
    nobody.close()


def _dropped(relay: Relay) -> int:
    return sum(n for (_, verdict), n in relay.verdicts.items() if verdict is Verdict.DROP)
