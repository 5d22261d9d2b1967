"""Tensors between ranks over real sockets: whole, lost within a bound, repaired, attacked."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from wire_ranks import DATA, DONE, HERE, JOB, QUICK, Doubling, Relay, packet, ranks, together

from paceline.wire import (
    Address,
    Arrived,
    Endpoint,
    JobKey,
    Orders,
    Patience,
    PeerLost,
    Receive,
    Send,
    TransferPhase,
    Tuning,
    WireError,
)

pytestmark = pytest.mark.needs("native", "linux")

SIZE = 100_000  # values: 280 packets
Lose = Callable[[dict[str, int]], bool]


def values(seed: int = 0, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def carried(
    sender: Endpoint, receiver: Endpoint, sent: np.ndarray, budget: float = 0.0, step: int = 1
) -> tuple[np.ndarray, Arrived]:
    """One tensor from one to the other."""
    room = np.full_like(sent, 9)
    _, (came,) = together(
        [
            lambda: sender.exchange(
                Orders(step, TransferPhase.PUSH, [Send(receiver.rank, sent)], [])
            ),
            lambda: receiver.exchange(
                Orders(step, TransferPhase.PUSH, [], [Receive(sender.rank, room, budget=budget)])
            ),
        ]
    )
    return room, came


@pytest.mark.parametrize("size", [1, 2, 358, 359, SIZE])
@pytest.mark.parametrize("segments", [1, 16])
def test_what_is_sent_arrives_to_the_bit(size: int, segments: int) -> None:
    with ranks(2, replace(QUICK, segments=segments)) as (a, b):
        room, came = carried(a, b, values(size=size))
    assert np.array_equal(room, values(size=size))
    assert came.missing_bytes == 0
    assert came.flags.all()


def test_without_loss_nothing_of_a_large_budget_is_spent() -> None:
    with ranks(2) as (a, b):
        for step in range(1, 20):
            _, came = carried(a, b, values(), budget=0.5, step=step)
            assert came.missing_bytes == 0
    assert b.counters["early_stops"] == 0


def through(relay: Callable[..., Relay], lose: Lose, **tuning: object) -> object:
    """Two ranks whose data, from 0 to 1, goes through a relay."""
    ways = lambda made: {(0, 1): relay(made[1].address, lose).address}  # noqa: E731
    return ranks(2, replace(QUICK, **tuning), ways)


def every_tenth_once(header: dict[str, int]) -> bool:
    return header["kind"] == DATA and header["round"] == 0 and header["sequence"] % 10 == 3


def test_lost_packets_are_sent_again_where_none_may_be_lost(relay: Callable[..., Relay]) -> None:
    with through(relay, every_tenth_once) as (a, b):
        room, came = carried(a, b, values())
        assert a.counters["sent_again"] == 28
    assert np.array_equal(room, values())
    assert came.missing_bytes == 0


def test_lost_packets_within_the_budget_stay_as_they_were(relay: Callable[..., Relay]) -> None:
    with through(relay, every_tenth_once) as (a, b):
        room, came = carried(a, b, values(), budget=0.11)
        assert a.counters["sent_again"] == 0
    there = np.repeat(came.flags, 358)[:SIZE] > 0
    assert came.missing_bytes == 4 * int((~there).sum()) == 28 * 1432
    assert np.array_equal(room[there], values()[there])
    assert (room[~there] == 9).all()


def test_above_the_budget_only_the_excess_is_waited_for(relay: Callable[..., Relay]) -> None:
    with through(relay, every_tenth_once) as (a, b):
        _, came = carried(a, b, values(), budget=0.05)
    assert 0 <= came.missing_bytes <= 0.05 * 4 * SIZE


def test_what_matters_is_repaired_even_within_the_budget(relay: Callable[..., Relay]) -> None:
    from paceline.wire import Marks

    important = np.zeros(280, np.uint8)
    important[:40] = 1
    marks = Marks(np.zeros(1, np.uint8), important)
    with through(relay, every_tenth_once) as (a, b):
        room = np.zeros(SIZE, np.float32)
        _, (came,) = together(
            [
                lambda: a.exchange(
                    Orders(1, TransferPhase.PUSH, [Send(1, values(), marks=marks)], [])
                ),
                lambda: b.exchange(
                    Orders(1, TransferPhase.PUSH, [], [Receive(0, room, budget=0.2)])
                ),
            ]
        )
    assert came.flags[:40].all()


def test_a_step_spends_no_more_than_its_own_budget(relay: Callable[..., Relay]) -> None:
    with through(relay, every_tenth_once) as (a, b):
        rooms = [np.zeros(SIZE, np.float32) for _ in range(4)]
        _, came = together(
            [
                lambda: a.exchange(
                    Orders(
                        1, TransferPhase.PUSH, [Send(1, values(n), tensor=n) for n in range(4)], []
                    )
                ),
                lambda: b.exchange(
                    Orders(
                        1,
                        TransferPhase.PUSH,
                        [],
                        [Receive(0, room, n, budget=0.2) for n, room in enumerate(rooms)],
                        budget_bytes=60_000,
                    )
                ),
            ]
        )
    assert 0 < sum(arrived.missing_bytes for arrived in came) <= 60_000


def test_tensors_follow_one_another_and_each_is_told_of_when_it_has_come() -> None:
    with ranks(2) as (a, b):
        rooms = [np.zeros(SIZE, np.float32) for _ in range(4)]

        def receive() -> list[int]:
            b.post(
                Orders(
                    1, TransferPhase.PUSH, (), [Receive(0, room, n) for n, room in enumerate(rooms)]
                )
            )
            found: list[Arrived] = []
            while came := b.wait():
                found += came
            return [one.transfer.tensor for one in found]

        sends = [Send(1, values(n), n) for n in (3, 1, 2, 0)]
        order, _ = together([receive, lambda: a.exchange(Orders(1, TransferPhase.PUSH, sends))])
    assert order == [0, 1, 2, 3]
    assert all(np.array_equal(room, values(n)) for n, room in enumerate(rooms))


def test_after_an_error_nothing_is_open() -> None:
    with ranks(2) as (a, b):
        with pytest.raises(WireError, match="no rank 5"):
            a.post(Orders(1, TransferPhase.PUSH, [Send(1, values()), Send(5, values())]))
        a.settle()
        assert a.wait() == []
        with pytest.raises(WireError, match="asked for twice in one post"):
            a.post(Orders(2, TransferPhase.PUSH, [Send(1, values()), Send(1, values())]))
        room, _ = carried(a, b, values(), step=3)
    assert np.array_equal(room, values())


@pytest.mark.parametrize("kind", [3, 4, 7])
def test_every_datagram_of_a_receiver_may_be_lost(kind: int, relay: Callable[..., Relay]) -> None:
    with through(relay, lambda header: header["kind"] == kind) as (receiver, sender):
        room, _ = carried(sender, receiver, values())
    assert np.array_equal(room, values())


def test_every_word_of_a_sender_that_is_done_may_be_lost(relay: Callable[..., Relay]) -> None:
    lose = lambda header: header["kind"] == 5 or every_tenth_once(header)  # noqa: E731
    with through(relay, lose) as (sender, receiver):
        room, _ = carried(sender, receiver, values())
    assert np.array_equal(room, values())


def test_packets_may_come_twice_and_in_any_order() -> None:
    made: list[Doubling] = []

    def ways(ends: list[Endpoint]) -> dict[tuple[int, int], Address]:
        made.append(Doubling(ends[1].address))
        return {(0, 1): made[0].address}

    with ranks(2, QUICK, ways) as (a, b):
        room, _ = carried(a, b, values())
        made[0].close()
        assert b.counters["duplicate"] + b.counters["stale"] > 200
    assert np.array_equal(room, values())


def test_strangers_cannot_write_into_a_tensor_and_are_counted() -> None:
    evil = np.full(358, 666, np.float32).tobytes()
    fields = {"source": 0, "step": 1, "phase": int(TransferPhase.PUSH), "length": 4 * SIZE}
    forged = packet(evil, JobKey(JOB.number, bytes(16)), **fields)
    foreign = packet(evil, JobKey(JOB.number + 1, JOB.secret), **fields)
    attacks = {
        "forged": forged,
        "other_job": foreign,
        "truncated": forged[:30],
        "malformed": forged + b"more",
        "stale": packet(evil, **{**fields, "step": 99}),
        "misfit": packet(evil, **{**fields, "offset": 7}),
    }
    with ranks(2) as (a, b), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for attack in attacks.values():  # wait in the receiver's socket for its first look
            stranger.sendto(attack, (b.address.host, b.address.port))
        room, _ = carried(a, b, values())
        assert {name: b.counters[name] for name in attacks} == dict.fromkeys(attacks, 1)
    assert np.array_equal(room, values())


def test_noise_under_the_jobs_own_key_writes_into_no_other_tensor() -> None:
    draw = np.random.default_rng(5)
    with ranks(2) as (a, b), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for _ in range(500):
            fields = {
                "kind": int(draw.integers(1, 8)), "source": int(draw.integers(0, 3)),
                "step": int(draw.integers(2, 5)), "tensor": int(draw.integers(0, 3)),
                "offset": int(draw.integers(0, 2**32)), "length": int(draw.integers(0, 2**32)),
                "sequence": int(draw.integers(0, 2**32)), "phase": int(draw.integers(0, 8)),
                "round": int(draw.integers(0, 256)),
            }  # fmt: skip
            noise = draw.bytes(int(draw.integers(0, 1400)))
            for end in (a, b):
                stranger.sendto(packet(noise, **fields), (end.address.host, end.address.port))
        for step in (1, 6):
            room, _ = carried(a, b, values(step), step=step)
            assert np.array_equal(room, values(step))


@pytest.mark.parametrize(("last", "misfit"), [(0, 0), (280, 0), (2**31, 1), (2**32 - 1, 0)])
def test_a_done_that_is_forged_cut_or_of_an_impossible_number_ends_nothing(
    last: int, misfit: int
) -> None:
    fields = {"kind": DONE, "phase": int(TransferPhase.PUSH), "sequence": last}
    forged = packet(of=JobKey(JOB.number, bytes(16)), step=1, **fields)
    with ranks(2) as (a, b), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for message in (forged, forged[:-1], packet(step=9, **fields)):
            stranger.sendto(message, (b.address.host, b.address.port))
        room, came = carried(a, b, values(), budget=1.0)
        told = {name: b.counters[name] for name in ("forged", "truncated", "misfit")}
    assert told == {"forged": 1, "truncated": 1, "misfit": misfit}
    assert np.array_equal(room, values())
    assert came.missing_bytes == 0


def test_a_stranger_on_the_reliable_channel_is_hung_up_on() -> None:
    with Endpoint(0, JOB, HERE, QUICK) as a, Endpoint(1, JOB, HERE, QUICK) as b:
        with socket.create_connection((a.address.host, a.address.port)) as stranger:
            stranger.sendall(packet(of=JobKey(JOB.number, bytes(16)), kind=2, source=1))
            peers = {0: a.address, 1: b.address}
            together([lambda: a.connect(peers, 20), lambda: b.connect(peers, 20)])
            stranger.settimeout(20)
            assert stranger.recv(1) == b""
        assert a.counters["strangers"] == 1


SILENT = """
import sys
import numpy as np
from paceline.wire import *
job = JobKey(7, bytes(range(16)))
peer = Address("127.0.0.1", int(sys.argv[1]))
end = Endpoint(1, job, Address("127.0.0.1", 0), Tuning())
print(end.address.port, flush=True)
end.connect({0: peer})
end.exchange(Orders(1, TransferPhase.PUSH, [], [Receive(0, np.zeros(10, np.float32))]))
print("met", flush=True)
input()
"""


@pytest.mark.live
@pytest.mark.parametrize(
    ("how", "said"), [(signal.SIGKILL, "ended while"), (signal.SIGSTOP, "has been silent for")]
)
def test_a_peer_that_vanishes_is_an_error_and_never_a_hang(how: int, said: str) -> None:
    tuning = Tuning(patience=Patience(timeout_s=0.5))
    with Endpoint(0, JOB, HERE, tuning) as mine:
        peer = subprocess.Popen(
            [sys.executable, "-c", SILENT, str(mine.address.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert peer.stdout is not None
        try:
            mine.connect({1: Address("127.0.0.1", int(peer.stdout.readline()))}, 20)
            mine.exchange(Orders(1, TransferPhase.PUSH, [Send(1, values(size=10))], []))
            assert peer.stdout.readline() == "met\n"
            os.kill(peer.pid, how)
            with pytest.raises(PeerLost, match=said):
                mine.exchange(
                    Orders(2, TransferPhase.PUSH, [], [Receive(1, np.zeros(9, np.float32))])
                )
        finally:
            peer.kill()
            peer.communicate()


def test_a_peer_that_never_comes_is_named() -> None:
    with Endpoint(0, JOB, HERE, QUICK) as mine, pytest.raises(PeerLost, match=r"rank 3 \(10"):
        mine.connect({3: Address("10.9.9.9", 4)}, 0.05)


def test_a_port_in_use_is_named() -> None:
    with (
        Endpoint(0, JOB, HERE, QUICK) as first,
        pytest.raises(WireError, match=f"127.0.0.1:{first.address.port} cannot be used"),
    ):
        Endpoint(1, JOB, first.address, QUICK)


def test_a_small_socket_buffer_costs_time_and_no_values() -> None:
    small = replace(QUICK, buffer_bytes=1, window_bytes=1 << 20, paced=False)
    with ranks(2, small) as (a, b):
        room, came = carried(a, b, values())
        assert b.counters["overflowed"] + a.counters["full"] > 0
    assert np.array_equal(room, values())
    assert came.missing_bytes == 0


ABOVE_THE_MTU = """
import sys
from wire_ranks import *
sys.path.append({here!r})
from test_transport import carried, values
with ranks(2) as (a, b):
    room, came = carried(a, b, values())
    assert (room == values()).all(), came
    assert a.counters["too_big"] > 0, a.counters
"""


@pytest.mark.needs("root", "namespaces", "iproute2")
def test_packets_above_the_mtu_travel_in_pieces_and_are_counted() -> None:
    here = str(Path(__file__).parent)
    script = f"import sys; sys.path.insert(0, {here!r})" + ABOVE_THE_MTU.format(here=here)
    inside = 'ip link set lo up mtu 1000 && exec "$0" -c "$1"'
    command = ["unshare", "--net", "sh", "-c", inside, sys.executable, script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_ends_that_disagree_about_a_tensor_are_told() -> None:
    with ranks(2) as (a, b):

        def receive() -> None:
            with pytest.raises(PeerLost):
                b.exchange(Orders(1, TransferPhase.PUSH, [], [Receive(0, np.zeros(8, np.float32))]))

        def send() -> None:
            with pytest.raises(WireError, match="expects 32 bytes of tensor 0"):
                a.exchange(Orders(1, TransferPhase.PUSH, [Send(1, values(size=9))], []))
            a.close()

        together([receive, send])


def test_a_rank_that_nobody_knows_and_values_in_pieces_are_refused() -> None:
    with ranks(2) as (a, _):
        with pytest.raises(WireError, match="no rank 5"):
            a.exchange(Orders(1, TransferPhase.PUSH, [Send(5, values())], []))
        with pytest.raises(WireError, match="one piece of memory"):
            a.exchange(Orders(1, TransferPhase.PUSH, [Send(1, values()[::2])], []))


@pytest.mark.parametrize("wrong", [{"packet_bytes": 1001}, {"link_bits_per_s": 0}, {"segments": 0}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(WireError):
        Tuning(**wrong)
